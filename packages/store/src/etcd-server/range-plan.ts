// Ranges with etcd's filters and sort orders, which a Store does not know: it reads the range, and what it found is
// filtered, sorted and cut here, in the order in which etcd does it.
import { Code, ConnectError } from "@connectrpc/connect";
import { compareBytes } from "../keys.ts";
import type { Bytes, KeyValue, RangeRequest, RangeResponse } from "../port.ts";
import type { RangeRequest as EtcdRange } from "../gen/proto/etcdserverpb/rpc_pb.ts";

export interface RangePlan {
  readonly request: RangeRequest;
  readonly finish: (found: RangeResponse) => RangeResponse;
}

const DESCENDING = 2;
const EMPTY: Bytes = new Uint8Array(0);

/** By etcd's numbers for sort targets. */
const orders: readonly ((a: KeyValue, b: KeyValue) => number)[] = [
  (a, b) => compareBytes(a.key, b.key),
  (a, b) => a.version - b.version,
  (a, b) => a.createRevision - b.createRevision,
  (a, b) => a.modRevision - b.modRevision,
  (a, b) => compareBytes(a.value, b.value),
];

export function planRange(etcd: EtcdRange): RangePlan {
  const order = orders[etcd.sortTarget];
  if (order === undefined || etcd.sortOrder < 0 || etcd.sortOrder > DESCENDING) {
    throw new ConnectError("etcdserver: invalid sort option", Code.InvalidArgument);
  }
  const limit = Math.max(0, Number(etcd.limit));
  const filtered = [
    etcd.minModRevision,
    etcd.maxModRevision,
    etcd.minCreateRevision,
    etcd.maxCreateRevision,
  ].some((revision) => revision !== 0n);
  const byKey = etcd.sortTarget === 0;
  const simple = byKey && !filtered;
  const base = {
    key: etcd.key,
    ...endOf(etcd.rangeEnd),
    revision: Math.max(0, Number(etcd.revision)),
    countOnly: etcd.countOnly,
  };
  if (simple || etcd.countOnly) {
    const descending = etcd.sortOrder === DESCENDING;
    return { request: { ...base, limit, keysOnly: etcd.keysOnly, descending }, finish: (found) => found };
  }
  // Without an order etcd reads only as many as are wanted and sorts those.
  const early = !filtered && etcd.sortOrder === 0 ? limit : 0;
  return {
    request: { ...base, ...(early === 0 ? {} : { limit: early + 1 }) },
    finish: (found) => {
      const kept = filtered ? found.kvs.filter((kv) => passes(kv, etcd)) : [...found.kvs];
      if (!byKey || etcd.sortOrder !== 0) {
        kept.sort(etcd.sortOrder === DESCENDING ? (a, b) => order(b, a) : order);
      }
      const more = limit > 0 && kept.length > limit;
      const kvs = more ? kept.slice(0, limit) : kept;
      return { ...found, more, kvs: etcd.keysOnly ? kvs.map((kv) => ({ ...kv, value: EMPTY })) : kvs };
    },
  };
}

export function endOf(rangeEnd: Bytes): { end?: Bytes } {
  return rangeEnd.length === 0 ? {} : { end: rangeEnd };
}

function passes(kv: KeyValue, etcd: EtcdRange): boolean {
  const within = (value: number, min: bigint, max: bigint): boolean =>
    (min === 0n || value >= min) && (max === 0n || value <= max);
  return (
    within(kv.modRevision, etcd.minModRevision, etcd.maxModRevision) &&
    within(kv.createRevision, etcd.minCreateRevision, etcd.maxCreateRevision)
  );
}
