import type { Records } from "@gpve/store/records/port.ts";
import { aclDef, poolsDef, rolesDef, tokensDef, usersDef } from "@gpve/domain/access/collections.ts";

/** Counts the changes of who may do what, so that open watches are judged anew. */
export class AccessEpoch {
  #count = 0;
  readonly #listeners = new Set<() => void>();
  readonly #stops: readonly (() => void)[];

  constructor(records: Records) {
    const count = (): void => {
      this.#count++;
      for (const listener of this.#listeners) listener();
    };
    // Groups are counted by their members' records.
    this.#stops = [
      records.collection(usersDef).onChange(count),
      records.collection(rolesDef).onChange(count),
      records.collection(tokensDef).onChange(count),
      records.collection(aclDef).onChange(count),
      records.collection(poolsDef).onChange(count),
    ];
  }

  current(): number {
    return this.#count;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  close(): void {
    for (const stop of this.#stops) stop();
  }
}
