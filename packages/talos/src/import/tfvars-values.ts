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
  /** Paths of machines, and what they are called together. */
  readonly #machines = new Map<string, string>();

  constructor(values: Tree) {
    this.#all = flatten(values, "");
  }

  /** The first that `read` makes something of: enable_vip = true stands before the VIP and is none. */
  find<T>(pattern: RegExp, read: (value: unknown) => T | undefined): T | undefined {
    for (const { path, value } of this.#all) {
      const found = pattern.test(path) ? read(value) : undefined;
      if (found === undefined) continue;
      // Machines repeat what holds for all of them.
      const same = JSON.stringify(value);
      for (const other of this.#all)
        if (other.path === path || (pattern.test(other.path) && JSON.stringify(other.value) === same))
          this.#asked.add(other.path);
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

  /** All texts there are, alone or in lists, in the order of the file; those of single machines are not for all. */
  texts(pattern: RegExp, except?: RegExp): readonly string[] {
    const found = this.#all.filter(
      ({ path }) => pattern.test(path) && except?.test(path) !== true && this.#machineOf(path) === undefined,
    );
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

  /** A machine at `path`, one of `group`, of which these keys were read. */
  takeMachine(path: string, group: string, keys: Iterable<string>): void {
    this.#machines.set(path, group);
    for (const key of keys) this.#asked.add(`${path}_${key}`);
  }

  /** Names that nobody asked for, once for all machines of a group; what is empty says nothing. */
  get left(): readonly string[] {
    const names = this.#all
      .filter(({ path, value }) => !this.#asked.has(path) && !SECRET.test(path) && !isNothing(value))
      .map(({ path }) => {
        const machine = this.#machineOf(path);
        return machine === undefined ? path : `${this.#machines.get(machine)}${path.slice(machine.length)}`;
      });
    return [...new Set(names)];
  }

  #machineOf(path: string): string | undefined {
    return [...this.#machines.keys()].find((machine) => path.startsWith(`${machine}_`));
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
    const items = listOf(value);
    if (items.length > 0 && items.every(isTree))
      return items.flatMap((item, at) => flatten(item, `${path}_${at + 1}`));
    return isTree(value) ? flatten(value, path) : [{ path, value }];
  });
}
