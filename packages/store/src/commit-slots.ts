// Making the outcome of a lost answer readable.
//
// Over a network a transaction can be done although its answer never came, or be done later. So each one also
// writes a token into a slot that only this process uses, on the condition that the slot is still as it was. When
// the answer is lost, a second transaction tries to take the same slot: if it can, the first has not happened and
// now never will; if it cannot, the token in the slot says whose write did.
import { randomUUID } from "node:crypto";
import { type AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Bytes, CallOptions, KeyValue, Store, TxnRequest, TxnResponse } from "./port.ts";
import { fromUtf8, utf8 } from "./keys.ts";

const DECIDE_MS = 20_000;
const STALE_MS = 86_400_000;

export interface CommitSlotsDeps {
  readonly store: Store;
  readonly clock: Clock;
  /** Slots live at <root>.commit/…; ends with "/". */
  readonly root: string;
  /** The part of the slots' key space this process may write; default all of it. */
  readonly corner?: string;
}

interface Slot {
  readonly key: string;
  /** Its mod revision, 0 = not there. */
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

  /** As `store.txn`, but an answer that was lost is found out, and a request that was lost is sent again. */
  async txn(request: Omit<TxnRequest, "failure">, options: CallOptions = {}): Promise<TxnResponse> {
    if (this.#deps.store.answersMayBeLost !== true) return this.#deps.store.txn(request, options);
    const slot = this.#free.pop() ?? {
      key: `${this.#deps.root}.commit/${this.#owner}/${this.#made++}`,
      revision: 0,
    };
    // A slot whose state we do not know is not used again: it only comes back at a regular end.
    for (;;) {
      const answer = await this.#attempt(slot, request, options);
      if (answer === undefined) continue;
      this.#free.push(slot);
      return answer;
    }
  }

  /** Undefined when it has not happened and never will, for no fault of the request. */
  async #attempt(
    slot: Slot,
    { compare, success }: Omit<TxnRequest, "failure">,
    options: CallOptions,
  ): Promise<TxnResponse | undefined> {
    const token = this.#token();
    const before = slot.revision;
    try {
      const answer = await this.#deps.store.txn(
        {
          compare: [...compare, unchanged(slot.key, before)],
          success: [...success, { type: "put", key: utf8(slot.key), value: utf8(token) }],
          failure: [{ type: "range", key: utf8(slot.key) }],
        },
        options,
      );
      slot.revision = answer.succeeded ? answer.revision : (slotIn(answer)?.modRevision ?? 0);
      if (answer.succeeded) return answer;
      // Somebody tidied up our slot: that says nothing about the request.
      if (slot.revision !== before) return undefined;
      return { ...answer, responses: [] };
    } catch (err) {
      if (!isAppError(err) || err.data["ambiguous"] !== true) throw err;
      return await this.#decide(slot, before, token, err);
    }
  }

  /** Keys of slots that nobody has used for a day: left behind by processes that are gone. */
  stale(records: Iterable<{ readonly key: string; readonly value: Bytes }>): string[] {
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

  async #decide(slot: Slot, before: number, token: string, lost: AppError): Promise<TxnResponse | undefined> {
    const { store, clock } = this.#deps;
    const fence = this.#token();
    const until = clock.monotonic() + DECIDE_MS;
    while (clock.monotonic() < until) {
      try {
        const answer = await store.txn({
          compare: [unchanged(slot.key, before)],
          success: [{ type: "put", key: utf8(slot.key), value: utf8(fence) }],
          failure: [{ type: "range", key: utf8(slot.key) }],
        });
        const kv = slotIn(answer);
        slot.revision = answer.succeeded ? answer.revision : (kv?.modRevision ?? 0);
        if (answer.succeeded) return undefined;
        const value = kv === undefined ? undefined : fromUtf8(kv.value);
        if (value === token) return { succeeded: true, responses: [], revision: slot.revision };
        if (value === fence) return undefined;
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

function slotIn(answer: TxnResponse): KeyValue | undefined {
  const [found] = answer.responses;
  return !answer.succeeded && found?.type === "range" ? found.kvs[0] : undefined;
}

function unchanged(key: string, modRevision: number): TxnRequest["compare"][number] {
  return { key: utf8(key), target: "modRevision", modRevision, result: "equal" };
}
