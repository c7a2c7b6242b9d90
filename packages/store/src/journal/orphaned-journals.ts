// Journals below one root that nobody owns and that hold unfinished work: what a server leaves when it dies.
import { decodeRecord } from "@gpve/kit/operation/record.ts";
import { isEnded } from "@gpve/kit/operation/states.ts";
import { fromUtf8, prefixEnd, utf8 } from "../keys.ts";
import type { Store } from "../port.ts";
import { readAll } from "../read-all.ts";

export class OrphanedJournals {
  readonly #store: Store;
  readonly #root: string;
  /** Journals in which all had ended at this revision; only an owner could change that. */
  readonly #idle = new Map<string, number>();

  /** `root` ends with "/": "/gpve/operations/". */
  constructor(store: Store, root: string) {
    this.#store = store;
    this.#root = root;
  }

  /** Names of the journals, without those whose owner's lease still holds. */
  async find(): Promise<string[]> {
    const found: string[] = [];
    for await (const name of this.#names()) if (await this.#isOrphan(name)) found.push(name);
    return found;
  }

  /** One read for each journal, however much they hold. */
  async *#names(): AsyncGenerator<string> {
    const end = prefixEnd(utf8(this.#root));
    for (let key = utf8(this.#root); ;) {
      const [first] = (await this.#store.range({ key, end, limit: 1, keysOnly: true })).kvs;
      if (first === undefined) return;
      const name = fromUtf8(first.key).slice(this.#root.length).split("/")[0] ?? "";
      yield name;
      key = prefixEnd(utf8(`${this.#root}${name}/`));
    }
  }

  /** Whether somebody owns the journal now. */
  async isOwned(name: string): Promise<boolean> {
    const owner = await this.#store.range({ key: utf8(`${this.#root}${name}/owner`), countOnly: true });
    return owner.count > 0;
  }

  async #isOrphan(name: string): Promise<boolean> {
    const prefix = `${this.#root}${name}/`;
    if (await this.isOwned(name)) return false;
    const key = utf8(`${prefix}op/`);
    const span = { key, end: prefixEnd(key) };
    const idleAt = this.#idle.get(name);
    if (idleAt !== undefined) {
      const newer = await this.#store.range({
        ...span,
        minModRevision: idleAt + 1,
        limit: 1,
        keysOnly: true,
      });
      if (newer.kvs.length === 0) return false;
    }
    let isBusy = false;
    const revision = await readAll(this.#store, span, undefined, (kvs) => {
      isBusy ||= kvs.some((kv) => !isEnded(decodeRecord(JSON.parse(fromUtf8(kv.value))).state));
    });
    if (!isBusy) this.#idle.set(name, revision);
    return isBusy;
  }
}
