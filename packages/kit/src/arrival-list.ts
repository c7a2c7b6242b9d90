// Members in the order they came, removed from anywhere, at a cost that does not depend on their number. A Set is not
// that: what was deleted at its head is passed over again by every look at its first member.

interface Link<T> {
  readonly value: T;
  before: Link<T> | undefined;
  after: Link<T> | undefined;
}

export class ArrivalList<T extends object> {
  readonly #links = new Map<T, Link<T>>();
  #first: Link<T> | undefined;
  #last: Link<T> | undefined;

  get size(): number {
    return this.#links.size;
  }

  get oldest(): T | undefined {
    return this.#first?.value;
  }

  add(value: T): void {
    if (this.#links.has(value)) return;
    const link: Link<T> = { value, before: this.#last, after: undefined };
    if (this.#last === undefined) this.#first = link;
    else this.#last.after = link;
    this.#last = link;
    this.#links.set(value, link);
  }

  delete(value: T): void {
    const link = this.#links.get(value);
    if (link === undefined) return;
    this.#links.delete(value);
    if (link.before === undefined) this.#first = link.after;
    else link.before.after = link.after;
    if (link.after === undefined) this.#last = link.before;
    else link.after.before = link.before;
  }
}
