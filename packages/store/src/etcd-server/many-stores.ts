// One process, many databases: each with a socket of its own that speaks etcd's API. Which are served is said by files, so
// that nobody has to be asked after a restart:
//
//   FOLDER/serve/<name>          there: it is served
//   FOLDER/db/<name>/state.db    the database
//   FOLDER/sock/<name>/etcd.sock its socket; who may enter the folder may speak to it
import { type FSWatcher, mkdirSync, readdirSync, rmSync, watch } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { type EtcdListener, listenEtcd } from "./listen.ts";
import type { Store } from "../port.ts";

export interface ManyStoresOptions {
  readonly folder: string;
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

interface Served {
  readonly store: Store;
  readonly listener: EtcdListener;
}

/** For what the kernel does not tell of. */
const LOOK_EVERY_MS = 1_000;

export class ManyStores {
  readonly #options: ManyStoresOptions;
  readonly #served = new Map<string, Served>();
  #watcher: FSWatcher | undefined;
  #nextLook = (): void => undefined;
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: ManyStoresOptions) {
    this.#options = options;
  }

  get names(): readonly string[] {
    return [...this.#served.keys()].toSorted();
  }

  async start(): Promise<void> {
    const wanted = this.#path("serve");
    for (const folder of ["serve", "db", "sock"]) mkdirSync(this.#path(folder), { recursive: true });
    this.#watcher = watch(wanted, () => void this.#look());
    await this.#look();
    this.#lookLater();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#watcher?.close();
    this.#nextLook();
    await this.#looking;
    for (const name of this.names) await this.#stop(name);
  }

  #lookLater(): void {
    this.#nextLook = this.#options.clock.after(LOOK_EVERY_MS, () => {
      void this.#look();
      if (!this.#isClosed) this.#lookLater();
    });
  }

  /** One after the other: what is being opened is not opened twice. */
  #look(): Promise<void> {
    this.#looking = this.#looking.then(() => this.#compare());
    return this.#looking;
  }

  async #compare(): Promise<void> {
    if (this.#isClosed) return;
    const wanted = new Set(readdirSync(this.#path("serve")));
    for (const name of this.names) if (!wanted.has(name)) await this.#stop(name);
    for (const name of wanted) if (!this.#served.has(name)) await this.#serve(name);
  }

  async #serve(name: string): Promise<void> {
    const { clock, say } = this.#options;
    let store: Store | undefined;
    try {
      store = openSqliteStore({ path: this.#path("db", name, "state.db"), clock });
      const path = this.#path("sock", name, "etcd.sock");
      rmSync(path, { force: true });
      const listener = await listenEtcd({ store, name, listen: { path }, clock });
      this.#served.set(name, { store, listener });
      say(`serves ${name}`);
    } catch (err) {
      // The others are served all the same; it is tried again at the next look.
      await store?.close();
      say(`cannot serve ${name}: ${messageOf(err)}`);
    }
  }

  async #stop(name: string): Promise<void> {
    const served = this.#served.get(name);
    if (served === undefined) return;
    this.#served.delete(name);
    await served.listener.close();
    await served.store.close();
    this.#options.say(`serves ${name} no longer`);
  }

  #path(...parts: readonly string[]): string {
    return join(this.#options.folder, ...parts);
  }
}
