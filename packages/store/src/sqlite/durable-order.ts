// What waits for the disk: answers and events of committed writes, in the order of their commits. One sync at a time;
// all that gathers while it runs goes with the next one. A sync that failed is the last: the kernel tells of lost pages
// once, so the next one would succeed without them.
import type { AppError } from "@gpve/contracts/errors.ts";
import type { Sync } from "./wal-sync.ts";

export interface Waiting {
  readonly succeed: () => void;
  readonly fail: (err: AppError) => void;
}

export class DurableOrder {
  readonly #sync: Sync;
  readonly #onFailure: (err: Error) => AppError;
  #gathered: Waiting[] = [];
  #inFlight: Waiting[] | undefined;
  #failed: AppError | undefined;

  /** `onFailure`: a disk that cannot sync may have lost anything; says what everybody is told from then on. */
  constructor(sync: Sync, onFailure: (err: Error) => AppError) {
    this.#sync = sync;
    this.#onFailure = onFailure;
  }

  get isIdle(): boolean {
    return this.#inFlight === undefined && this.#gathered.length === 0;
  }

  /** Once everything that is committed now is durable. */
  after(waiting: readonly Waiting[]): void {
    this.#gathered.push(...waiting);
    if (this.#failed !== undefined) this.#failAll(this.#failed);
    else if (this.#inFlight === undefined) this.#next();
  }

  /** Resolves when everything that is committed now is durable. */
  settled(): Promise<void> {
    if (this.#failed !== undefined) return Promise.reject(this.#failed);
    if (this.isIdle) return Promise.resolve();
    return new Promise((succeed, fail) => {
      const last = this.#gathered.length > 0 ? this.#gathered : this.#inFlight;
      last?.push({ succeed, fail });
    });
  }

  #next(): void {
    const group = this.#gathered;
    this.#gathered = [];
    this.#inFlight = group;
    this.#sync((err) => {
      try {
        if (err !== null) throw err;
        for (let first = group.shift(); first !== undefined; first = group.shift()) first.succeed();
        this.#inFlight = undefined;
        if (this.#gathered.length > 0) this.#next();
      } catch (cause) {
        this.#failed ??= this.#onFailure(cause as Error);
        this.#failAll(this.#failed);
      }
    });
  }

  #failAll(reason: AppError): void {
    const all = [...(this.#inFlight ?? []), ...this.#gathered];
    this.#inFlight = undefined;
    this.#gathered = [];
    for (const { fail } of all) fail(reason);
  }
}
