// What is found by a label that it must have, so that nothing is compared with everything there is.
import { matches, type Selector } from "@gpve/contracts/v1/selector.ts";

export type Labels = Readonly<Record<string, string>>;

export class Buckets<T> {
  readonly #sets = new Map<string, Set<T>>();

  get(bucket: string): Iterable<T> {
    return this.#sets.get(bucket) ?? [];
  }

  add(bucket: string, item: T): void {
    const found = this.#sets.get(bucket);
    if (found === undefined) this.#sets.set(bucket, new Set([item]));
    else found.add(item);
  }

  delete(bucket: string, item: T): void {
    const found = this.#sets.get(bucket);
    found?.delete(item);
    if (found?.size === 0) this.#sets.delete(bucket);
  }

  clear(): void {
    this.#sets.clear();
  }
}

export function selects(selector: Selector, labels: Labels): boolean {
  return matches(selector, (key) => (Object.hasOwn(labels, key) ? labels[key] : undefined));
}

/** A label that whatever the selector finds has; empty = there is none. */
export function bucketOf(selector: Selector): string {
  for (const term of selector)
    if (term.op === "in" && term.values.length === 1) return `${term.key}=${term.values[0] ?? ""}`;
  return "";
}

export function bucketsOf(labels: Labels): readonly string[] {
  return ["", ...Object.entries(labels).map(([key, value]) => `${key}=${value}`)];
}
