import type { ObjectService } from "../../application/v1/object-service.ts";

/** Counts the changes of who may do what, so that open watches are judged anew. */
export class AccessEpoch {
  #count = 0;
  readonly #listeners = new Set<() => void>();

  constructor(service: ObjectService, kinds: readonly string[]) {
    for (const kind of kinds) {
      if (service.adapter(kind) === undefined) continue;
      service.cache(kind).onChange(() => {
        this.#count++;
        for (const listener of this.#listeners) listener();
      });
    }
  }

  current(): number {
    return this.#count;
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}
