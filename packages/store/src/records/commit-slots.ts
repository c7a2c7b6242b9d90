// Making the outcome of a lost answer readable.
//
// Over a network a transaction can be done although its answer never came, or be done later. So each one also
// writes a token into a slot that only this process uses, on the condition that the slot is still as it was. When
// the answer is lost, a second transaction tries to take the same slot: if it can, the first has not happened and
// now never will; if it cannot, the token in the slot says whose write did.
import { randomUUID } from "node:crypto";
import { type AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CallOptions, Store, TxnRequest, TxnResponse } from "../port.ts";
import { fromUtf8, utf8 } from "../keys.ts";
import type { RawRecord } from "./collection-cache.ts";

const DECIDE_MS = 20_000;
const STALE_MS = 86_400_000;

export interface CommitSlotsDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly root: string;
  readonly cached: (key: string) => RawRecord | undefined;
  /** The part of the slots' key space this process may write; default all of it. */
  readonly corner?: string;
}

interface Slot {
  readonly key: string;
  /** Its newest revision where we know it before the cache does; 0 = ask the cache. */
  revision: number;
}

export class CommitSlots {
  readonly #deps: CommitSlotsDeps;
  readonly #owner: string;
  readonly #free: Slot[] = [];
  #made = 0;

  constructor(deps: CommitSlotsDeps) {
    this.#deps = deps;
    this.#owner = deps.corner === undefined ? randomUUID() : `${deps.corner}/${randomUUID()}`;
  }

  /** As `store.txn`, but an answer that was lost is found out. A request that did not happen counts as refused. */
  async txn(request: TxnRequest, options: CallOptions): Promise<TxnResponse> {
    const { store, root, cached } = this.#deps;
    if (store.answersMayBeLost !== true) return store.txn(request, options);
    const key = (): string => `${root}.commit/${this.#owner}/${this.#made++}`;
    const slot = this.#free.pop() ?? { key: key(), revision: 0 };
    const before = Math.max(slot.revision, cached(slot.key)?.revision ?? 0);
    slot.revision = 0;
    const token = this.#token();
    try {
      const { compare, success } = request;
      const answer = await store.txn(
        {
          compare: [...compare, unchanged(slot.key, before)],
          success: [...success, { type: "put", key: utf8(slot.key), value: utf8(token) }],
        },
        options,
      );
      if (answer.succeeded) slot.revision = answer.revision;
      return answer;
    } catch (err) {
      if (!isAppError(err) || err.data["ambiguous"] !== true) throw err;
      return await this.#decide(slot.key, before, token, err);
    } finally {
      this.#free.push(slot);
    }
  }

  /** Keys of slots that nobody has used for a day: left behind by processes that are gone. */
  stale(records: Iterable<RawRecord>): string[] {
    // A process that may write only in its own corner leaves the others' to them.
    const { corner } = this.#deps;
    const prefix = `${this.#deps.root}.commit/${corner === undefined ? "" : `${corner}/`}`;
    const limit = this.#deps.clock.now() - STALE_MS;
    const keys: string[] = [];
    for (const { key, value } of records) {
      if (key.startsWith(prefix) && Number(fromUtf8(value).split(" ")[1]) < limit) keys.push(key);
    }
    return keys;
  }

  async #decide(slot: string, before: number, token: string, lost: AppError): Promise<TxnResponse> {
    const { store, clock } = this.#deps;
    const fence = this.#token();
    const until = clock.monotonic() + DECIDE_MS;
    while (clock.monotonic() < until) {
      try {
        const answer = await store.txn({
          compare: [unchanged(slot, before)],
          success: [{ type: "put", key: utf8(slot), value: utf8(fence) }],
          failure: [{ type: "range", key: utf8(slot) }],
        });
        const refused = { succeeded: false, responses: [], revision: answer.revision };
        if (answer.succeeded) return refused;
        const [found] = answer.responses;
        const kv = found?.type === "range" ? found.kvs[0] : undefined;
        const value = kv === undefined ? undefined : fromUtf8(kv.value);
        if (kv !== undefined && value === token) {
          return { succeeded: true, responses: [], revision: kv.modRevision };
        }
        if (value === fence) return refused;
        throw lost;
      } catch (err) {
        if (!isAppError(err, "store.unavailable") || err === lost) throw err;
        await clock.sleep(200);
      }
    }
    throw lost;
  }

  #token(): string {
    return `${randomUUID()} ${this.#deps.clock.now()}`;
  }
}

function unchanged(key: string, modRevision: number): TxnRequest["compare"][number] {
  return { key: utf8(key), target: "modRevision", modRevision, result: "equal" };
}
