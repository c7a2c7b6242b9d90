// Runs one transaction's logic against the tables, in etcd's order: all comparisons, those of nested transactions
// too, see the state before the transaction and choose the branches; then the chosen operations are checked, first
// puts, then ranges; then they run. The caller wraps it in a SQLite savepoint and decides what a failure means.
import type {
  Bytes,
  Compare,
  KeyValue,
  Op,
  OpResponse,
  RangeRequest,
  RangeResponse,
  StoreEvent,
  TxnRequest,
  TxnResponse,
} from "../port.ts";
import { compareBytes, equalBytes } from "../keys.ts";
import { compacted, futureRevision, noLease, refusal } from "../refusals.ts";
import type { Room } from "./room.ts";
import { type Tables, tombstone } from "./tables.ts";

export interface ApplyContext {
  readonly tables: Tables;
  /** Revision before this transaction. */
  readonly revision: number;
  readonly compactRevision: number;
  readonly leaseExists: (id: bigint) => boolean;
  /** Of a store that is bounded. */
  readonly room?: Pick<Room, "require"> | undefined;
  /** Collects what happened, in order. */
  readonly events: StoreEvent[];
  /** And what has no revision. */
  readonly aside: Aside;
}

export interface Aside {
  readonly granted: { readonly id: bigint; readonly ttlSeconds: number }[];
  readonly revoked: bigint[];
  compacted?: number;
}

export function nothingAside(): Aside {
  return { granted: [], revoked: [] };
}

export function applyTxn(ctx: ApplyContext, request: TxnRequest): TxnResponse {
  const plan = choose(ctx, request);
  checkPuts(ctx, plan);
  checkRanges(ctx, plan);
  const responses = run(ctx, plan);
  return settle(plan.succeeded, responses, revisionNow(ctx));
}

export function readRange(ctx: ApplyContext, request: RangeRequest): RangeResponse {
  const revision = revisionNow(ctx);
  const wanted = request.revision ?? 0;
  if (wanted > revision) throw futureRevision(wanted, revision);
  if (wanted > 0 && wanted < ctx.compactRevision) throw compacted(wanted, ctx.compactRevision);
  const at = wanted > 0 && wanted < revision ? wanted : undefined;
  if (request.countOnly === true) {
    return { kvs: [], more: false, count: ctx.tables.count(request, at), revision };
  }
  const limit = request.limit ?? 0;
  const minModRevision = request.minModRevision ?? 0;
  const found = ctx.tables.read(request, {
    at,
    minModRevision,
    limit: limit > 0 ? limit + 1 : 0,
    keysOnly: request.keysOnly === true,
    descending: request.descending === true,
  });
  const more = limit > 0 && found.length > limit;
  const whole = !more && minModRevision === 0;
  return {
    kvs: more ? found.slice(0, limit) : found,
    more,
    count: whole ? found.length : ctx.tables.count(request, at),
    revision,
  };
}

export function deleteKeys(ctx: ApplyContext, keys: readonly Bytes[]): void {
  const revision = ctx.revision + 1;
  for (const key of keys) {
    ctx.tables.delete(key, revision);
    ctx.events.push({ type: "delete", kv: tombstone(key, revision) });
  }
}

function revisionNow(ctx: ApplyContext): number {
  return ctx.events.length > 0 ? ctx.revision + 1 : ctx.revision;
}

interface Plan {
  readonly succeeded: boolean;
  readonly steps: readonly (readonly [op: Op, nested: Plan | undefined])[];
}

function choose(ctx: ApplyContext, request: TxnRequest): Plan {
  const succeeded = request.compare.every((item) => holds(ctx, item));
  const ops = succeeded ? request.success : (request.failure ?? []);
  return { succeeded, steps: ops.map((op) => [op, op.type === "txn" ? choose(ctx, op) : undefined]) };
}

function checkPuts(ctx: ApplyContext, plan: Plan): void {
  for (const [op, nested] of plan.steps) {
    if (nested !== undefined) checkPuts(ctx, nested);
    if (op.type === "put" || op.type === "delete") ctx.room?.require(op);
    if (op.type !== "put") continue;
    const keeps = op.ignoreValue === true || op.ignoreLease === true;
    if (keeps && ctx.tables.get(op.key) === undefined) {
      throw refusal("noKey", "a put that keeps value or lease needs an existing key");
    }
    const lease = op.lease ?? 0n;
    if (lease !== 0n && !ctx.leaseExists(lease)) throw noLease(lease);
  }
}

function checkRanges(ctx: ApplyContext, plan: Plan): void {
  for (const [op, nested] of plan.steps) {
    if (nested !== undefined) checkRanges(ctx, nested);
    if (op.type === "range") checkRange(ctx, op);
  }
}

/** Against the revision before the transaction: what it is about to write is still the future. */
function checkRange(ctx: ApplyContext, request: RangeRequest): void {
  const wanted = request.revision ?? 0;
  if (wanted > ctx.revision) throw futureRevision(wanted, ctx.revision);
  if (wanted > 0 && wanted < ctx.compactRevision) throw compacted(wanted, ctx.compactRevision);
}

function run(ctx: ApplyContext, plan: Plan): OpResponse[] {
  return plan.steps.map(([op, nested]) => runOp(ctx, op, nested));
}

/** Nested transactions answer with the revision of the whole, which is known only at its end. */
function settle(succeeded: boolean, responses: readonly OpResponse[], revision: number): TxnResponse {
  return {
    succeeded,
    revision,
    responses: responses.map((response) =>
      response.type === "txn"
        ? { type: "txn", ...settle(response.succeeded, response.responses, revision) }
        : response,
    ),
  };
}

function runOp(ctx: ApplyContext, op: Op, nested: Plan | undefined): OpResponse {
  switch (op.type) {
    case "range":
      return { type: "range", ...readRange(ctx, op) };
    case "put":
      return put(ctx, op);
    case "delete": {
      const { key, end } = op;
      const found = ctx.tables.read(
        { key, end },
        { at: undefined, minModRevision: 0, limit: 0, keysOnly: op.prevKv !== true, descending: false },
      );
      deleteKeys(
        ctx,
        found.map((kv) => kv.key),
      );
      return { type: "delete", deleted: found.length, prevKvs: op.prevKv === true ? found : [] };
    }
    case "txn": {
      const plan = nested ?? choose(ctx, op);
      return { type: "txn", succeeded: plan.succeeded, responses: run(ctx, plan), revision: 0 };
    }
  }
}

function put(ctx: ApplyContext, op: Op & { type: "put" }): OpResponse {
  const previous = ctx.tables.get(op.key);
  const lease = op.ignoreLease === true && previous !== undefined ? previous.lease : (op.lease ?? 0n);
  const revision = ctx.revision + 1;
  const kv: KeyValue = {
    key: op.key,
    value: op.ignoreValue === true && previous !== undefined ? previous.value : op.value,
    createRevision: previous?.createRevision ?? revision,
    modRevision: revision,
    version: (previous?.version ?? 0) + 1,
    lease,
  };
  ctx.tables.put(kv);
  ctx.events.push({ type: "put", kv });
  return op.prevKv === true && previous !== undefined ? { type: "put", prevKv: previous } : { type: "put" };
}

const ABSENT = { version: 0, createRevision: 0, modRevision: 0, lease: 0n } as const;

function holds(ctx: ApplyContext, item: Compare): boolean {
  const { key, end } = item;
  // "Nothing here changed since": what guards a listed collection. Looks at recent changes, not at all keys.
  if (end !== undefined && item.target === "modRevision" && item.result === "less" && item.modRevision > 0) {
    return !ctx.tables.changedSince({ key, end }, item.modRevision);
  }
  const found =
    end === undefined
      ? [ctx.tables.get(key)].filter((kv) => kv !== undefined)
      : ctx.tables.read(
          { key, end },
          {
            at: undefined,
            minModRevision: 0,
            limit: 0,
            keysOnly: item.target !== "value",
            descending: false,
          },
        );
  if (found.length === 0) return item.target !== "value" && matches(item, ABSENT);
  return found.every((kv) => matches(item, kv));
}

function matches(item: Compare, kv: Omit<KeyValue, "key" | "value"> & { readonly value?: Bytes }): boolean {
  switch (item.target) {
    case "version":
      return verdict(item, kv.version - item.version);
    case "createRevision":
      return verdict(item, kv.createRevision - item.createRevision);
    case "modRevision":
      return verdict(item, kv.modRevision - item.modRevision);
    case "lease":
      return verdict(item, kv.lease === item.lease ? 0 : kv.lease < item.lease ? -1 : 1);
    case "value": {
      const value = kv.value ?? new Uint8Array(0);
      return verdict(item, equalBytes(value, item.value) ? 0 : compareBytes(value, item.value));
    }
  }
}

function verdict({ result }: Compare, order: number): boolean {
  switch (result) {
    case "equal":
      return order === 0;
    case "notEqual":
      return order !== 0;
    case "less":
      return order < 0;
    case "greater":
      return order > 0;
  }
}
