import type { Collection } from "@gpve/store/records/port.ts";

/** Counts the changes of who may do what, so that open watches are judged anew. */
export class AccessEpoch {
  #count = 0;
  readonly #listeners = new Set<() => void>();
  readonly #stops: readonly (() => void)[];

  constructor(collections: readonly Pick<Collection<unknown>, "onChange">[]) {
    this.#stops = collections.map((collection) =>
      collection.onChange(() => {
        this.#count++;
        for (const listener of this.#listeners) listener();
      }),
    );
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
