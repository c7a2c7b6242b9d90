// Values made for many readers out of the same facts: kept while the facts are the very same objects, forgotten
// together when one of them changes. What is kept has a total weight limit, so that many readers cannot fill memory.

export class Kept<T> {
  readonly #limit: number;
  readonly #weigh: (value: T) => number;
  readonly #values = new Map<string, T>();
  #facts: readonly unknown[] = [];
  #weight = 0;

  constructor(options: { readonly limit: number; readonly weigh: (value: T) => number }) {
    this.#limit = options.limit;
    this.#weigh = options.weigh;
  }

  get(facts: readonly unknown[], name: string, make: () => T): T {
    if (facts.length !== this.#facts.length || facts.some((fact, at) => fact !== this.#facts[at])) {
      this.#forget();
      this.#facts = facts;
    }
    const known = this.#values.get(name);
    if (known !== undefined) return known;
    const value = make();
    const weight = this.#weigh(value);
    if (this.#weight + weight > this.#limit) this.#forget();
    this.#weight += weight;
    this.#values.set(name, value);
    return value;
  }

  #forget(): void {
    this.#values.clear();
    this.#weight = 0;
  }
}
