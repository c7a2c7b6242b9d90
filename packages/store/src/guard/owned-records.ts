// Records that belong to a peer, whoever may write their collection: what a transaction does to them is judged on what
// is stored, and done only if that is still so.
import { AppError } from "@gpve/contracts/errors.ts";
import { equalBytes, fromUtf8, utf8 } from "../keys.ts";
import type { Bytes, CallOptions, Compare, Op, Store, TxnRequest, TxnResponse } from "../port.ts";

export interface OwnedRecords {
  /** "/gpve/guests/": one record for each id below it. */
  readonly prefix: string;
  /** Whose a stored or new value is; undefined when it is none that may be written under this id. */
  readonly ownerOf: (value: Bytes, id: string) => string | undefined;
  readonly permits: {
    /** Where a server notes that a peer may write what it could not otherwise, such as a new record: once. */
    readonly prefix: string;
    /** The note that `after` needs, below the prefix; undefined = none. `before` undefined: it is a new record. */
    readonly needed: (id: string, before: Bytes | undefined, after: Bytes) => string | undefined;
    readonly allows: (permit: Bytes, after: Bytes, peer: string) => boolean;
  };
  /** What else a peer may make of its record; it keeps its owner and has its note. */
  readonly mayBecome: (before: Bytes | undefined, after: Bytes) => boolean;
  /** Notes on records below these prefixes, under the same id, may be put by whoever owns the record. */
  readonly notes: readonly string[];
}

const MAX_TRIES = 20;

interface Touched {
  readonly id: string;
  /** Values put as the record itself. */
  readonly values: Bytes[];
  noted: boolean;
  deleted: boolean;
  /** In a branch that need not be taken. */
  perhaps: boolean;
}

interface Judged {
  readonly unchanged: Compare[];
  /** Notes that are used up. */
  readonly used: Bytes[];
}

/** Does the transaction for `peer` if all it does to owned records is its to do. */
export async function ownedTxn(
  store: Store,
  rules: OwnedRecords,
  peer: string,
  request: TxnRequest,
  options?: CallOptions,
): Promise<TxnResponse> {
  const touched = touchedRecords(rules, request);
  if (touched.length === 0) return store.txn(request, options);
  for (const { id, deleted } of touched) if (deleted) requireMeant(rules, id, request);
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const judged: Judged = { unchanged: [], used: [] };
    for (const one of touched) await judge(store, rules, peer, { request, one }, judged, options);
    const { unchanged, used } = judged;
    const spent = used.map((key) => ({ type: "delete" as const, key }));
    const inner = { ...request, type: "txn" as const, success: [...request.success, ...spent] };
    const answer = await store.txn({ compare: unchanged, success: [inner], failure: [] }, options);
    const [done] = answer.responses;
    if (answer.succeeded && done?.type === "txn") {
      const { succeeded, responses } = done;
      const own = succeeded ? responses.slice(0, request.success.length) : responses;
      return { succeeded, responses: own, revision: answer.revision };
    }
  }
  throw new AppError(
    "object.conflict",
    "the records were changed by others again and again; try again later",
  );
}

async function judge(
  store: Store,
  rules: OwnedRecords,
  peer: string,
  { request, one }: { readonly request: TxnRequest; readonly one: Touched },
  { unchanged, used }: Judged,
  options: CallOptions | undefined,
): Promise<void> {
  const { id, values } = one;
  const key = utf8(rules.prefix + id);
  const stored = (await store.range({ key }, options)).kvs[0];
  const before = stored?.value;
  unchanged.push(same(key, stored?.modRevision));
  if (before !== undefined && rules.ownerOf(before, id) !== peer) throw notYours(rules, id);
  if (before === undefined && one.noted) {
    throw new AppError("access.denied", `this peer may not write ${rules.notes.join(", ")} of ${id}`);
  }
  // Written from an older state of it, and said so: nothing will be done, and whoever asked reads it again. Whether it
  // could be done would be judged on what the peer does not know yet, such as that a server has given the record a pool.
  const isOvertaken = !one.perhaps && wouldFail(request.compare, key, stored?.modRevision);
  for (const after of values) {
    if (rules.ownerOf(after, id) !== peer) throw notYours(rules, id);
    if (isOvertaken) continue;
    const needed = rules.permits.needed(id, before, after);
    if (needed !== undefined) {
      const permitKey = utf8(rules.permits.prefix + needed);
      const permit = (await store.range({ key: permitKey }, options)).kvs[0];
      const allowed = permit !== undefined && rules.permits.allows(permit.value, after, peer);
      // What is not surely written could not surely use it up.
      if (!allowed || one.perhaps) throw notAsked(rules, id);
      unchanged.push(same(permitKey, permit.modRevision));
      used.push(permitKey);
    }
    if (!rules.mayBecome(before, after)) throw stale(rules, id);
  }
}

/** A deletion carries nothing that could be judged: it has to say which state of the record it is about. */
function requireMeant(rules: OwnedRecords, id: string, { compare }: TxnRequest): void {
  const key = utf8(rules.prefix + id);
  const isMeant = compare.some(
    (item) =>
      item.target === "modRevision" &&
      item.result === "equal" &&
      item.end === undefined &&
      equalBytes(item.key, key),
  );
  if (!isMeant) throw stale(rules, id);
}

/** Whether a transaction compares the record with a state that it does not have. */
function wouldFail(compare: readonly Compare[], key: Bytes, modRevision = 0): boolean {
  return compare.some(
    (item) =>
      item.target === "modRevision" &&
      item.result === "equal" &&
      item.end === undefined &&
      equalBytes(item.key, key) &&
      item.modRevision !== modRevision,
  );
}

function touchedRecords(rules: OwnedRecords, request: TxnRequest): Touched[] {
  const found = new Map<string, Touched>();
  const note = (id: string): Touched => {
    const known = found.get(id) ?? { id, values: [], noted: false, deleted: false, perhaps: false };
    found.set(id, known);
    return known;
  };
  const visit = (op: Op, perhaps: boolean): void => {
    if (op.type === "txn") {
      for (const each of [...op.success, ...(op.failure ?? [])]) visit(each, true);
    } else if (op.type !== "range") {
      const key = fromUtf8(op.key);
      const home = [rules.prefix, ...rules.notes].find((prefix) => key.startsWith(prefix));
      if (home === undefined) return;
      const own = home === rules.prefix;
      // A range could reach records of others, and servers alone say when a note is done with.
      if (op.type === "delete" && (op.end !== undefined || !own)) throw notYours(rules, key);
      const touched = note(key.slice(home.length));
      if (!own) touched.noted = true;
      if (op.type === "delete") touched.deleted = true;
      if (op.type === "put" && own) touched.values.push(op.value);
      touched.perhaps ||= perhaps;
    }
  };
  for (const op of request.success) visit(op, false);
  for (const op of request.failure ?? []) visit(op, true);
  return [...found.values()];
}

function same(key: Bytes, modRevision = 0): Compare {
  return { key, target: "modRevision", modRevision, result: "equal" };
}

function notYours({ prefix }: OwnedRecords, id: string): AppError {
  const key = id.startsWith(prefix) ? id : `${prefix}${id}`;
  return new AppError("access.denied", `this peer may not write ${key}: it belongs to another`);
}

function notAsked({ prefix }: OwnedRecords, id: string): AppError {
  const text = `this peer may not make ${prefix}${id}: no server asked it for that, or it was done, or too long ago`;
  return new AppError("access.denied", text);
}

function stale({ prefix }: OwnedRecords, id: string): AppError {
  return new AppError(
    "access.denied",
    `this peer may not write ${prefix}${id} from what it knows of it: read it again`,
  );
}
