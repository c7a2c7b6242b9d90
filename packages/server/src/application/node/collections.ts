import {
  decodeJoinToken,
  decodeNodeRecord,
  type JoinTokenRecord,
  type NodeRecord,
} from "@gpve/domain/node/record.ts";
import type { CollectionDef } from "@gpve/store/records/port.ts";

export const nodeRecords: CollectionDef<NodeRecord> = { prefix: "/gpve/nodes/", decode: decodeNodeRecord };

export const joinTokens: CollectionDef<JoinTokenRecord> = {
  prefix: "/gpve/join-tokens/",
  decode: decodeJoinToken,
};
