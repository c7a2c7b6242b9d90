/** Texts per key; a second text on one key is joined by a literal backslash-n, as PVE does. */
export class SchemaErrors {
  readonly #texts = new Map<string, string>();

  add(path: string, text: string): void {
    const key = path === "" ? "_root" : path;
    const before = this.#texts.get(key);
    this.#texts.set(key, before === undefined ? text : `${before}\\n${text}`);
  }

  get size(): number {
    return this.#texts.size;
  }

  toRecord(): Record<string, string> {
    return Object.fromEntries(this.#texts);
  }
}
