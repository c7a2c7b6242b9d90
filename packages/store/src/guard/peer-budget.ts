// What one peer may use up of a store that it shares with others: bytes it keeps, bytes it writes in a time, leases and
// watches. One for each peer, however many connections it has.
import type { Clock } from "@gpve/kit/clock.ts";
import { prefixEnd, utf8 } from "../keys.ts";
import type { Op, Store, TxnRequest } from "../port.ts";
import { readAll } from "../read-all.ts";
import { refusal } from "../refusals.ts";

export interface BudgetLimits {
  /** Of all that lies below its own prefixes. */
  readonly keptBytes: number;
  readonly valueBytes: number;
  /** What it may write at once, and what it gets back of that each second: history costs room too. */
  readonly burstBytes: number;
  readonly bytesPerSecond: number;
  readonly leases: number;
  readonly ttlSeconds: number;
  readonly watches: number;
}

const MIB = 1024 * 1024;

export const PEER_LIMITS: BudgetLimits = {
  keptBytes: 64 * MIB,
  valueBytes: MIB,
  burstBytes: 32 * MIB,
  bytesPerSecond: MIB,
  leases: 64,
  ttlSeconds: 86_400,
  watches: 8,
};

/** What is kept is counted by reading it all: not more often than this. */
const COUNT_EVERY_MS = 1_000;

export interface PeerBudgetDeps {
  readonly store: Store;
  readonly clock: Clock;
  readonly peer: string;
  /** Prefixes that only this peer writes. */
  readonly own: readonly string[];
  /** Where its leases are noted. */
  readonly leases: string;
  readonly limits?: Partial<BudgetLimits>;
}

export class PeerBudget {
  readonly #deps: PeerBudgetDeps;
  readonly #limits: BudgetLimits;
  /** What it keeps, at most: replaced values count until the next look. */
  #kept: number | undefined;
  #countedAt = Number.NEGATIVE_INFINITY;
  #counting: Promise<number> | undefined;
  #left: number;
  #leftAt: number;
  #granting: Promise<unknown> = Promise.resolve();
  #watches = 0;

  constructor(deps: PeerBudgetDeps) {
    this.#deps = deps;
    this.#limits = { ...PEER_LIMITS, ...deps.limits };
    this.#left = this.#limits.burstBytes;
    this.#leftAt = deps.clock.monotonic();
  }

  /** Throws when the transaction would write more than the peer has left. Deletions are free. */
  async spend(request: TxnRequest): Promise<void> {
    const { peer, own } = this.#deps;
    const { valueBytes, keptBytes } = this.#limits;
    let [written, kept] = [0, 0];
    for (const { key, value } of putsIn(request)) {
      if (value.length > valueBytes)
        throw refusal(
          "tooLarge",
          `${peer} may store values of at most ${valueBytes} bytes, not ${value.length}`,
        );
      const bytes = key.length + value.length;
      written += bytes;
      if (own.some((prefix) => startsWith(key, prefix))) kept += bytes;
    }
    if (written === 0) return;
    this.#take(written);
    if (kept === 0) return;
    this.#kept ??= await this.#count();
    if (this.#kept + kept > keptBytes) await this.#countAgain();
    if (this.#kept + kept > keptBytes)
      throw refusal(
        "noSpace",
        `${peer} keeps ${this.#kept} bytes of its own in the store and may keep ${keptBytes}: ` +
          "let it delete old tasks or data first",
      );
    this.#kept += kept;
  }

  /** Grants one after the other, so that they can be counted. */
  grant<T>(ttlSeconds: number, grant: () => Promise<T>): Promise<T> {
    const { peer } = this.#deps;
    const { leases, ttlSeconds: longest } = this.#limits;
    if (ttlSeconds > longest)
      throw refusal("leaseTtl", `a lease of ${peer} may last ${longest} seconds, not ${ttlSeconds}`);
    const granted = this.#granting.then(async () => {
      const { store, leases: prefix } = this.#deps;
      const key = utf8(prefix);
      const { count } = await store.range({ key, end: prefixEnd(key), countOnly: true });
      if (count >= leases)
        throw refusal(
          "noSpace",
          `${peer} has ${count} leases and may have ${leases}: let it revoke some first`,
        );
      return grant();
    });
    this.#granting = granted.catch(() => undefined);
    return granted;
  }

  /** Returns the function that gives it back. */
  openWatch(): () => void {
    const { watches } = this.#limits;
    if (this.#watches >= watches)
      throw refusal("tooMany", `${this.#deps.peer} has ${watches} watches open and may have no more`);
    this.#watches += 1;
    let isOpen = true;
    return () => {
      if (isOpen) this.#watches -= 1;
      isOpen = false;
    };
  }

  #take(bytes: number): void {
    const { clock, peer } = this.#deps;
    const { burstBytes, bytesPerSecond } = this.#limits;
    const now = clock.monotonic();
    const back = ((now - this.#leftAt) / 1_000) * bytesPerSecond;
    this.#left = Math.min(burstBytes, this.#left + back);
    this.#leftAt = now;
    if (bytes > this.#left)
      throw refusal("tooMany", `${peer} writes more than ${bytesPerSecond} bytes a second: try again later`);
    this.#left -= bytes;
  }

  async #countAgain(): Promise<void> {
    if (this.#deps.clock.monotonic() - this.#countedAt < COUNT_EVERY_MS) return;
    this.#kept = await this.#count();
  }

  /** Those who want to know at the same time share one look. */
  #count(): Promise<number> {
    this.#counting ??= this.#read().finally(() => {
      this.#counting = undefined;
    });
    return this.#counting;
  }

  async #read(): Promise<number> {
    let bytes = 0;
    for (const prefix of this.#deps.own) {
      const key = utf8(prefix);
      await readAll(this.#deps.store, { key, end: prefixEnd(key) }, undefined, (kvs) => {
        for (const kv of kvs) bytes += kv.key.length + kv.value.length;
      });
    }
    this.#countedAt = this.#deps.clock.monotonic();
    return bytes;
  }
}

/** Of both branches: which one is taken is not known yet. */
function* putsIn({
  success,
  failure = [],
}: Pick<TxnRequest, "success" | "failure">): Generator<Extract<Op, { type: "put" }>> {
  for (const op of [...success, ...failure]) {
    if (op.type === "txn") yield* putsIn(op);
    else if (op.type === "put") yield op;
  }
}

function startsWith(key: Uint8Array, prefix: string): boolean {
  const wanted = utf8(prefix);
  return key.length >= wanted.length && wanted.every((byte, at) => key[at] === byte);
}
