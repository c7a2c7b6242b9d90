// Repeating a change under the same Idempotency-Key gives the first answer again. A change to objects stores its
// answer in the very transaction that makes the change, so that there is no moment between the two.
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { CollectionDef, Entry, Records, Tx } from "@gpve/store/records/port.ts";

export const IDEMPOTENCY_TTL_MS = 24 * 60 * 60_000;
/** Work that is not one transaction holds its key this long at most when its server dies. */
const CLAIM_TTL_MS = 60_000;
const SWEEP_BATCH = 200;

export interface IdempotencyRecord {
  readonly request: string;
  readonly at: number;
  /** Absent while the work runs. */
  readonly result?: unknown;
}

export const idempotencyCollection: CollectionDef<IdempotencyRecord> = {
  prefix: "/gpve/idempotency/",
  decode: (json) => {
    const fields = typeof json === "object" && json !== null ? (json as Record<string, unknown>) : {};
    const { request, at, result } = fields;
    if (typeof request !== "string" || typeof at !== "number")
      throw new TypeError("not an idempotency record");
    return result === undefined ? { request, at } : { request, at, result };
  },
};

export interface IdempotentRequest {
  readonly id: string;
  readonly request: string;
}

/** Who asks, under which key, for what. Secrets must be gone from `body`: a hash of a password is a way to guess it. */
export function idempotentRequest(
  key: string,
  authid: string,
  method: string,
  path: string,
  body: unknown,
): IdempotentRequest {
  if (key.length > 255 || !/^[\x21-\x7e]+$/.test(key)) {
    throw new AppError(
      "request.invalid",
      "Idempotency-Key must be 1 to 255 printable ASCII characters without spaces",
    );
  }
  const hash = (...parts: readonly string[]): string =>
    createHash("sha256").update(parts.join("\0")).digest("hex");
  return { id: hash(authid, key), request: hash(method, path, JSON.stringify(body ?? null)) };
}

export class Idempotency {
  readonly #records: Records;
  readonly #clock: Clock;
  #sweptAt: number;

  constructor(records: Records, clock: Clock) {
    this.#records = records;
    this.#clock = clock;
    this.#sweptAt = clock.now();
  }

  /** The stored answer, in its own transaction or another's. Throws when the key was used for something else. */
  find(tx: Tx, wanted: IdempotentRequest): Entry<IdempotencyRecord> | undefined {
    const entry = tx.get(idempotencyCollection, wanted.id);
    if (entry === undefined || this.#clock.now() - entry.value.at > IDEMPOTENCY_TTL_MS) return undefined;
    if (entry.value.request !== wanted.request) {
      throw new AppError(
        "object.conflict",
        "this Idempotency-Key was used for another request; take a new key",
      );
    }
    return entry;
  }

  store(tx: Tx, wanted: IdempotentRequest, result: unknown): void {
    tx.put(idempotencyCollection, wanted.id, { request: wanted.request, at: this.#clock.now(), result });
  }

  /**
   * For work that is not one transaction: claims the key, runs, stores the answer. A secret answer is not stored;
   * asking for it again is refused.
   */
  async once<R>(
    wanted: IdempotentRequest | undefined,
    run: () => Promise<R>,
    options: { readonly secret?: boolean } = {},
  ): Promise<R> {
    if (wanted === undefined) return run();
    const stored = await this.#records.transact((tx) => {
      const entry = this.find(tx, wanted);
      if (entry?.value.result !== undefined) return { result: entry.value.result as R };
      if (entry !== undefined && this.#clock.now() - entry.value.at < CLAIM_TTL_MS) {
        throw new AppError(
          "object.conflict",
          "a request with this Idempotency-Key is being worked on; ask again",
        );
      }
      tx.put(idempotencyCollection, wanted.id, { request: wanted.request, at: this.#clock.now() });
      return undefined;
    });
    if (stored !== undefined) {
      if (options.secret !== true) return stored.result;
      throw new AppError(
        "object.conflict",
        "this was done before under this Idempotency-Key, and its secret is shown once",
      );
    }
    try {
      const result = await run();
      await this.#records.transact((tx) => this.store(tx, wanted, options.secret === true ? true : result));
      return result;
    } catch (err) {
      await this.#records.transact((tx) => tx.delete(idempotencyCollection, wanted.id));
      throw err;
    }
  }

  /** Removes answers past their day. Cheap to call often. */
  async sweep(): Promise<void> {
    const now = this.#clock.now();
    if (now - this.#sweptAt < 10 * 60_000) return;
    this.#sweptAt = now;
    const old = this.#records
      .collection(idempotencyCollection)
      .list()
      .filter((entry) => now - entry.value.at > IDEMPOTENCY_TTL_MS)
      .slice(0, SWEEP_BATCH);
    if (old.length === 0) return;
    await this.#records.transact((tx) => {
      for (const entry of old) tx.delete(idempotencyCollection, entry.id);
    });
  }
}
