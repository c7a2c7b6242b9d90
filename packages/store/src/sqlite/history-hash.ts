// The sum that etcd calls HashKV: two stores with the same readable history have the same one. The numbers are not
// etcd's own, which depend on how its file is laid out.
import { crc32 } from "node:zlib";
import type { KeyValue } from "../port.ts";
import type { HistorySource } from "../standby/commit-tap.ts";
import type { Tables } from "./tables.ts";

const HEAD_BYTES = 48;

export function hashHistory(rows: Iterable<KeyValue>): number {
  let sum = 0;
  const head = Buffer.alloc(HEAD_BYTES);
  for (const { key, value, createRevision, modRevision, version, lease } of rows) {
    // Lengths first, so that no byte can move from one field to the next unseen.
    [key.length, value.length, createRevision, modRevision, version].forEach((number, index) =>
      head.writeBigInt64BE(BigInt(number), index * 8),
    );
    head.writeBigInt64BE(lease, HEAD_BYTES - 8);
    sum = crc32(value, crc32(key, crc32(head, sum)));
  }
  return sum;
}

/** What a standby is brought up to date from. */
export function historySource(tables: Tables): HistorySource {
  return {
    compacted: () => tables.meta("compacted"),
    hash: (revision, compacted) => hashHistory(tables.historyTo(revision, compacted)),
    *between(from, to) {
      for (let next = from; next <= to;) {
        const { events, reached } = tables.events(EVERYTHING, next, to, READ_AT_ONCE);
        for (const { kv } of events) yield kv;
        next = reached + 1;
      }
    },
    all: (revision, compacted) => tables.historyTo(revision, compacted),
    leases: () => tables.leases(),
  };
}

const EVERYTHING = { key: new Uint8Array(1), end: new Uint8Array(1) };
const READ_AT_ONCE = { events: 1_000, bytes: 1024 * 1024 };
