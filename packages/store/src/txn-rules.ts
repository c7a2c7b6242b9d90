// What etcd refuses before it runs a transaction. Checked here for every engine, so that code which works on
// SQLite does not first fail on a cluster.
import type { Bytes, Op, TxnRequest } from "./port.ts";
import { compareBytes, equalBytes, isToTheEnd, mapKey } from "./keys.ts";
import { refusal } from "./refusals.ts";

/** etcd's default --max-txn-ops, for each of compare, success and failure. What is nested gets what is left of it. */
export const MAX_TXN_OPS = 128;
/** etcd's default --max-request-bytes. */
export const MAX_REQUEST_BYTES = 1.5 * 1024 * 1024;

interface Writes {
  readonly puts: Map<string, Put>;
  readonly deletes: (readonly [Bytes, Bytes | undefined])[];
}

export function checkTxn(request: TxnRequest): void {
  const bytes = checkShape(request, MAX_TXN_OPS);
  collect(request.success);
  collect(request.failure ?? []);
  if (bytes > MAX_REQUEST_BYTES) {
    throw refusal(
      "tooLarge",
      `the transaction carries ${bytes} bytes, more than the ${MAX_REQUEST_BYTES} a store takes at once`,
    );
  }
}

function checkShape(request: TxnRequest, maxOps: number): number {
  const { compare, success, failure = [] } = request;
  const widest = Math.max(compare.length, success.length, failure.length);
  if (widest > maxOps) {
    throw refusal(
      "tooManyOps",
      `too many operations in one transaction: at most ${MAX_TXN_OPS} comparisons and ${MAX_TXN_OPS} operations`,
    );
  }
  let bytes = 0;
  for (const item of compare) {
    requireKey(item.key);
    bytes += item.key.length + (item.target === "value" ? item.value.length : 0);
  }
  for (const op of [...success, ...failure]) bytes += checkOp(op, maxOps - widest);
  return bytes;
}

function checkOp(op: Op, maxOps: number): number {
  if (op.type === "txn") return checkShape(op, maxOps);
  requireKey(op.key);
  if (op.type !== "put") return op.key.length;
  if (op.ignoreValue === true && op.value.length > 0) {
    throw refusal("valueProvided", "a put that keeps the value must not carry one");
  }
  if (op.ignoreLease === true && op.lease !== undefined && op.lease !== 0n) {
    throw refusal("leaseProvided", "a put that keeps the lease must not carry one");
  }
  return op.key.length + op.value.length;
}

/** True when neither branch can change anything. */
export function readsOnly(request: TxnRequest): boolean {
  return [...request.success, ...(request.failure ?? [])].every(
    (op) => op.type === "range" || (op.type === "txn" && readsOnly(op)),
  );
}

export function requireKey(key: Bytes): void {
  if (key.length === 0) throw refusal("emptyKey", "a key must not be empty");
}

interface Put {
  readonly key: Bytes;
  /** It keeps value or lease of what is there. */
  readonly keeps: boolean;
}

/**
 * As etcd looks at it: an end is taken as it is written, so that "to the end of all keys" covers none. But what is
 * deleted that way has nothing left to keep; etcd ends itself when it finds out.
 */
function covers({ key, keeps }: Put, start: Bytes, end: Bytes | undefined): boolean {
  if (end === undefined) return equalBytes(key, start);
  if (keeps && isToTheEnd(end)) return compareBytes(start, key) <= 0;
  return compareBytes(start, key) <= 0 && compareBytes(key, end) < 0;
}

/** One revision holds a key at most once; only the two branches of one nested transaction may both put it. */
function collect(ops: readonly Op[]): Writes {
  const puts = new Map<string, Put>();
  const deletes: (readonly [Bytes, Bytes | undefined])[] = [];
  for (const op of ops) if (op.type === "delete") deletes.push([op.key, op.end]);
  const add = (put: Put, exclusive?: Writes): void => {
    const name = mapKey(put.key);
    const twice = puts.has(name) && exclusive?.puts.has(name) !== true;
    if (twice || deletes.some(([start, end]) => covers(put, start, end))) {
      throw refusal("duplicateKey", "a transaction must not write the same key twice");
    }
    puts.set(name, put);
  };
  for (const op of ops) {
    if (op.type !== "txn") continue;
    const success = collect(op.success);
    const failure = collect(op.failure ?? []);
    for (const put of success.puts.values()) add(put);
    for (const put of failure.puts.values()) add(put, success);
    deletes.push(...success.deletes, ...failure.deletes);
  }
  for (const op of ops) {
    if (op.type === "put") add({ key: op.key, keeps: op.ignoreValue === true || op.ignoreLease === true });
  }
  return { puts, deletes };
}
