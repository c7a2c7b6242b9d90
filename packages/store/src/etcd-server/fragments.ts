// A watch answer too large for one message, in parts that etcd's client puts together again.
import { toBinary, create } from "@bufbuild/protobuf";
import { EventSchema, type WatchResponseSchema } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { MAX_REQUEST_BYTES } from "../txn-rules.ts";
import type { Init } from "./message-init.ts";

export type WatchAnswer = Init<typeof WatchResponseSchema>;

/** As much as etcd lets a message have beside its contents. */
const OVERHEAD_BYTES = 512 * 1024;

export function* fragments(
  answer: WatchAnswer,
  maxBytes = MAX_REQUEST_BYTES + OVERHEAD_BYTES,
): Generator<WatchAnswer> {
  const events = answer.events ?? [];
  let from = 0;
  let bytes = 0;
  for (let at = 0; at < events.length; at++) {
    const event = events[at];
    const size = event === undefined ? 0 : toBinary(EventSchema, create(EventSchema, event)).length;
    if (at > from && bytes + size >= maxBytes) {
      yield { ...answer, events: events.slice(from, at), fragment: true };
      from = at;
      bytes = 0;
    }
    bytes += size;
  }
  yield { ...answer, events: events.slice(from) };
}
