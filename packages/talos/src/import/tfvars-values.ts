// Variables of Terraform by what they mean. Names differ from module to module, so they are found by patterns; what no
// pattern asked for is known as well, and told.
import { isTree, listOf, numberOf, textOf, type Tree } from "./imported-cluster.ts";

interface Named {
  readonly path: string;
  readonly value: unknown;
}

/** What is not to be read, and not to be named among what was not. */
export const SECRET = /token|password|secret/;

export class TfvarsValues {
  readonly #all: readonly Named[];
  readonly #asked = new Set<string>();

  constructor(values: Tree) {
    this.#all = flatten(values, "");
  }

  /** The first that `read` makes something of: enable_vip = true stands before the VIP and is none. */
  find<T>(pattern: RegExp, read: (value: unknown) => T | undefined): T | undefined {
    for (const { path, value } of this.#all) {
      const found = pattern.test(path) ? read(value) : undefined;
      if (found === undefined) continue;
      this.#asked.add(path);
      return found;
    }
    return undefined;
  }

  text(pattern: RegExp): string | undefined {
    return this.find(pattern, textOf);
  }

  number(pattern: RegExp): number | undefined {
    return this.find(pattern, numberOf);
  }

  flag(pattern: RegExp): boolean | undefined {
    return this.find(pattern, (value) => (typeof value === "boolean" ? value : undefined));
  }

  /** All texts there are, alone or in lists, in the order of the file. */
  texts(pattern: RegExp, except?: RegExp): readonly string[] {
    const found = this.#all.filter(({ path }) => pattern.test(path) && except?.test(path) !== true);
    for (const { path } of found) this.#asked.add(path);
    return [
      ...new Set(
        found.flatMap(({ value }) => (Array.isArray(value) ? listOf(value) : [value])).flatMap(asTexts),
      ),
    ];
  }

  /** "2000-2999", however it was written: as text, as a list of two, or as two numbers. */
  range(place: string): string | undefined {
    const whole = this.find(new RegExp(`${place}$`), (value) => {
      const [first, last] = listOf(value).map(numberOf);
      const text = textOf(value);
      if (first !== undefined && last !== undefined) return `${first}-${last}`;
      return text !== undefined && /^\d+-\d+$/.test(text) ? text : undefined;
    });
    const first = this.number(new RegExp(`${place}_(start|min|from|first)$`));
    const last = this.number(new RegExp(`${place}_(end|max|to|last)$`));
    return whole ?? (first === undefined || last === undefined ? undefined : `${first}-${last}`);
  }

  has(pattern: RegExp): boolean {
    return this.#all.some(({ path }) => pattern.test(path));
  }

  /** Their group was read in another way. */
  take(group: string): void {
    for (const { path } of this.#all)
      if (path === group || path.startsWith(`${group}_`)) this.#asked.add(path);
  }

  /** Names that nobody asked for; what is empty says nothing. */
  get left(): readonly string[] {
    return this.#all
      .filter(({ path, value }) => !this.#asked.has(path) && !SECRET.test(path) && !isNothing(value))
      .map(({ path }) => path);
  }
}

/** What tools write for "not set". */
const isNothing = (value: unknown): boolean =>
  value === null || value === 0 || value === "" || (Array.isArray(value) && value.length === 0);

const asTexts = (value: unknown): readonly string[] => {
  const text = textOf(value);
  return text === undefined ? [] : [text];
};

/** Keys joined by "_", those of groups first. */
function flatten(tree: Tree, prefix: string): readonly Named[] {
  return Object.entries(tree).flatMap(([key, value]): readonly Named[] => {
    const path = prefix === "" ? key : `${prefix}_${key}`;
    return isTree(value) ? flatten(value, path) : [{ path, value }];
  });
}
