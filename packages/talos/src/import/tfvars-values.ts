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

  find(pattern: RegExp): unknown {
    const found = this.#all.find(({ path }) => pattern.test(path));
    if (found !== undefined) this.#asked.add(found.path);
    return found?.value;
  }

  /** All texts there are, alone or in lists, in the order of the file. */
  texts(pattern: RegExp): readonly string[] {
    const found = this.#all.filter(({ path }) => pattern.test(path));
    for (const { path } of found) this.#asked.add(path);
    return [
      ...new Set(
        found.flatMap(({ value }) => (Array.isArray(value) ? listOf(value) : [value])).flatMap(asTexts),
      ),
    ];
  }

  /** "2000-2999", however it was written: as text, as a list of two, or as two numbers. */
  range(place: string): string | undefined {
    const whole = this.find(new RegExp(`${place}$`));
    const [first, last] = Array.isArray(whole)
      ? listOf(whole).map(numberOf)
      : [
          numberOf(this.find(new RegExp(`${place}_(start|min|from|first)$`))),
          numberOf(this.find(new RegExp(`${place}_(end|max|to|last)$`))),
        ];
    if (first !== undefined && last !== undefined) return `${first}-${last}`;
    const text = textOf(whole);
    return text !== undefined && /^\d+-\d+$/.test(text) ? text : undefined;
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
      .filter(({ path, value }) => !this.#asked.has(path) && !SECRET.test(path) && value !== null)
      .map(({ path }) => path);
  }
}

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
