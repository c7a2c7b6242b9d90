// Records that belong to a peer, whoever may write their collection: what a transaction does to them is judged on what
// is stored, and done only if that is still so.
import { AppError } from "@gpve/contracts/errors.ts";
import { fromUtf8, utf8 } from "../keys.ts";
import type { Bytes, CallOptions, Compare, Op, Store, TxnRequest, TxnResponse } from "../port.ts";

export interface OwnedRecords {
  /** "/gpve/guests/": one record for each id below it. */
  readonly prefix: string;
  /** Whose a stored or new value is; undefined when it is none that may be written under this id. */
  readonly ownerOf: (value: Bytes, id: string) => string | undefined;
  /** Where a server notes who may make a record that is not there. */
  readonly permits: { readonly prefix: string; readonly allows: (value: Bytes, peer: string) => boolean };
  /** Notes on records below these prefixes, under the same id, may be put by whoever owns the record. */
  readonly notes: readonly string[];
}

const MAX_TRIES = 20;

interface Touched {
  readonly id: string;
  /** Values put as the record itself. */
  readonly values: Bytes[];
  noted: boolean;
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
  for (let attempt = 0; attempt < MAX_TRIES; attempt++) {
    const unchanged: Compare[] = [];
    for (const one of touched) {
      const key = utf8(rules.prefix + one.id);
      const stored = (await store.range({ key }, options)).kvs[0];
      if (stored === undefined) await requirePermit(store, rules, peer, one, options);
      else if (rules.ownerOf(stored.value, one.id) !== peer) throw notYours(rules, one.id);
      if (one.values.some((value) => rules.ownerOf(value, one.id) !== peer)) throw notYours(rules, one.id);
      const modRevision = stored?.modRevision ?? 0;
      unchanged.push({ key, target: "modRevision", modRevision, result: "equal" });
    }
    const answer = await store.txn(
      { compare: unchanged, success: [{ type: "txn", ...request }], failure: [] },
      options,
    );
    const [inner] = answer.responses;
    if (answer.succeeded && inner?.type === "txn") {
      return { succeeded: inner.succeeded, responses: inner.responses, revision: answer.revision };
    }
  }
  throw new AppError(
    "object.conflict",
    "the records were changed by others again and again; try again later",
  );
}

async function requirePermit(
  store: Store,
  { prefix, permits, notes }: OwnedRecords,
  peer: string,
  { id, values, noted }: Touched,
  options: CallOptions | undefined,
): Promise<void> {
  // Deleting what is not there changes nothing.
  if (values.length === 0 && !noted) return;
  const permit = (await store.range({ key: utf8(permits.prefix + id) }, options)).kvs[0];
  if (!noted && permit !== undefined && permits.allows(permit.value, peer)) return;
  const what = noted ? `write ${notes.join(", ")} of ${id}` : `make ${prefix}${id}: no server asked for it`;
  throw new AppError("access.denied", `this peer may not ${what}`);
}

function touchedRecords(rules: OwnedRecords, request: TxnRequest): Touched[] {
  const found = new Map<string, Touched>();
  const note = (id: string): Touched => {
    const known = found.get(id) ?? { id, values: [], noted: false };
    found.set(id, known);
    return known;
  };
  const visit = (op: Op): void => {
    if (op.type === "txn") {
      for (const each of [...op.success, ...(op.failure ?? [])]) visit(each);
    } else if (op.type !== "range") {
      const key = fromUtf8(op.key);
      const home = [rules.prefix, ...rules.notes].find((prefix) => key.startsWith(prefix));
      if (home === undefined) return;
      const own = home === rules.prefix;
      // A range could reach records of others, and servers alone say when a note is done with.
      if (op.type === "delete" && (op.end !== undefined || !own)) throw notYours(rules, key);
      const touched = note(key.slice(home.length));
      if (!own) touched.noted = true;
      if (op.type === "put" && own) touched.values.push(op.value);
    }
  };
  for (const op of [...request.success, ...(request.failure ?? [])]) visit(op);
  return [...found.values()];
}

function notYours({ prefix }: OwnedRecords, id: string): AppError {
  const key = id.startsWith(prefix) ? id : `${prefix}${id}`;
  return new AppError("access.denied", `this peer may not write ${key}: it belongs to another`);
}
