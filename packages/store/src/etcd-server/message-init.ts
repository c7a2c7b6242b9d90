import type { DescMessage, Message, MessageInitShape } from "@bufbuild/protobuf";

/** The fields of a message that is to be made, not one that is made already. */
export type Init<Desc extends DescMessage> = Exclude<MessageInitShape<Desc>, Message>;
