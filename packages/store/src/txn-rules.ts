// What etcd refuses before it runs a transaction. Checked here for every engine, so that code which works on
// SQLite does not first fail on a cluster.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Bytes, Op, TxnRequest } from "./port.ts";
import { inRange, mapKey } from "./keys.ts";

/** etcd's default --max-txn-ops, for each of compare, success and failure. */
export const MAX_TXN_OPS = 128;
/** etcd's default --max-request-bytes. */
export const MAX_REQUEST_BYTES = 1.5 * 1024 * 1024;
const MAX_DEPTH = 32;

interface Writes {
  readonly puts: Map<string, Bytes>;
  readonly deletes: (readonly [Bytes, Bytes | undefined])[];
}

export function checkTxn(request: TxnRequest): void {
  const bytes = checkShape(request, 0);
  if (bytes > MAX_REQUEST_BYTES) {
    throw new AppError(
      "request.too_large",
      `the transaction carries ${bytes} bytes, more than the ${MAX_REQUEST_BYTES} a store takes at once`,
    );
  }
  collect(request.success);
  collect(request.failure ?? []);
}

function checkShape(request: TxnRequest, depth: number): number {
  if (depth > MAX_DEPTH) throw new AppError("request.invalid", "transactions are nested too deeply");
  const { compare, success, failure = [] } = request;
  if (Math.max(compare.length, success.length, failure.length) > MAX_TXN_OPS) {
    throw new AppError(
      "request.too_large",
      `too many operations in one transaction: at most ${MAX_TXN_OPS} comparisons and ${MAX_TXN_OPS} operations`,
    );
  }
  let bytes = 0;
  for (const item of compare) {
    requireKey(item.key);
    bytes += item.key.length + (item.target === "value" ? item.value.length : 0);
  }
  for (const op of [...success, ...failure]) bytes += checkOp(op, depth);
  return bytes;
}

function checkOp(op: Op, depth: number): number {
  if (op.type === "txn") return checkShape(op, depth + 1);
  requireKey(op.key);
  if (op.type !== "put") return op.key.length;
  if (op.ignoreValue === true && op.value.length > 0) {
    throw new AppError("request.invalid", "a put that keeps the value must not carry one");
  }
  if (op.ignoreLease === true && op.lease !== undefined && op.lease !== 0n) {
    throw new AppError("request.invalid", "a put that keeps the lease must not carry one");
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
  if (key.length === 0) throw new AppError("request.invalid", "a key must not be empty");
}

/** One revision holds a key at most once; only the two branches of one nested transaction may both put it. */
function collect(ops: readonly Op[]): Writes {
  const puts = new Map<string, Bytes>();
  const deletes: (readonly [Bytes, Bytes | undefined])[] = [];
  for (const op of ops) if (op.type === "delete") deletes.push([op.key, op.end]);
  const add = (key: Bytes, exclusive?: Writes): void => {
    const name = mapKey(key);
    const twice = puts.has(name) && exclusive?.puts.has(name) !== true;
    if (twice || deletes.some(([start, end]) => inRange(key, start, end))) {
      throw new AppError("request.invalid", "a transaction must not write the same key twice");
    }
    puts.set(name, key);
  };
  for (const op of ops) {
    if (op.type !== "txn") continue;
    const success = collect(op.success);
    const failure = collect(op.failure ?? []);
    for (const key of success.puts.values()) add(key);
    for (const key of failure.puts.values()) add(key, success);
    deletes.push(...success.deletes, ...failure.deletes);
  }
  for (const op of ops) if (op.type === "put") add(op.key);
  return { puts, deletes };
}
