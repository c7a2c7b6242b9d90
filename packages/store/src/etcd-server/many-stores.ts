// One process, many databases: each with a socket of its own that speaks etcd's API. Which are served is said by files, so
// that nobody has to be asked after a restart:
//
//   FOLDER/serve/<name>          there: it is served
//   FOLDER/db/<name>/state.db    the database
//   FOLDER/sock/<name>/etcd.sock its socket; who may enter the folder may speak to it
//
// And which have a standby, or are one: standby/standby-files.ts.
import { type FSWatcher, mkdirSync, readdirSync, rmSync, watch } from "node:fs";
import { join } from "node:path";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { Follower } from "../standby/follower.ts";
import { LeadStream, SOLO } from "../standby/lead-stream.ts";
import { type LinkEnd, listenLink, StandbyFiles } from "../standby/standby-files.ts";
import { type EtcdListener, listenEtcd } from "./listen.ts";
import type { Store } from "../port.ts";

export interface ManyStoresOptions {
  readonly folder: string;
  readonly clock: Clock;
  readonly say: (line: string) => void;
  /** Of each database; its file goes no further. */
  readonly maxBytes?: number;
}

interface Served {
  readonly store: Store;
  readonly lead: LeadStream;
  readonly link: LinkEnd;
  /** undefined = its standby has to be asked first whether it leads still. */
  readonly listener?: EtcdListener;
}

interface Followed {
  readonly follower: Follower;
  readonly link: LinkEnd;
}

/** As an etcd of a cluster's own has. */
const MAX_BYTES = 8 * 2 ** 30;
/** For what the kernel does not tell of. */
const LOOK_EVERY_MS = 1_000;

export class ManyStores {
  readonly #options: ManyStoresOptions;
  readonly #files: StandbyFiles;
  readonly #served = new Map<string, Served>();
  readonly #followed = new Map<string, Followed>();
  #watchers: FSWatcher[] = [];
  #nextLook = (): void => undefined;
  #looking: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: ManyStoresOptions) {
    this.#options = options;
    this.#files = new StandbyFiles(options.folder);
  }

  /** Those that can be spoken to. */
  get names(): readonly string[] {
    return [...this.#served]
      .flatMap(([name, { listener }]) => (listener === undefined ? [] : [name]))
      .toSorted();
  }

  async start(): Promise<void> {
    for (const folder of ["serve", "db", "sock"]) mkdirSync(this.#path(folder), { recursive: true });
    this.#files.make();
    this.#watchers = ["serve", "lead", "follow"].map((folder) =>
      watch(this.#path(folder), () => void this.#look()),
    );
    await this.#look();
    this.#lookLater();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    for (const watcher of this.#watchers) watcher.close();
    this.#nextLook();
    await this.#looking;
    for (const name of this.#served.keys()) await this.#stop(name);
    for (const name of this.#followed.keys()) await this.#unfollow(name);
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
    for (const name of this.#served.keys()) if (!wanted.has(name)) await this.#stop(name);
    for (const name of wanted) if (!this.#served.has(name)) await this.#serve(name);
    for (const [name, { lead }] of this.#served) {
      lead.configure(this.#files.lead(name) ?? SOLO);
      await this.#listen(name);
      if (lead.state.generation > 0) this.#files.setState(name, lead.state);
    }
    const followed = new Map(this.#files.followed().map((name) => [name, this.#files.follow(name)]));
    for (const [name, { follower }] of this.#followed)
      if (followed.get(name)?.generation !== follower.generation) await this.#unfollow(name);
    for (const [name, follow] of followed)
      if (follow !== undefined && !this.#followed.has(name)) await this.#follow(name, follow.generation);
    for (const [name, { follower }] of this.#followed) this.#files.setFed(name, follower.isFed);
  }

  async #serve(name: string): Promise<void> {
    const { clock, say, maxBytes = MAX_BYTES } = this.#options;
    let store: Store | undefined;
    try {
      const lead = new LeadStream(
        {
          clock,
          say: (line) => say(`${name}: ${line}`),
          joined: this.#files.joined(name),
          changed: () => void this.#look(),
        },
        this.#files.lead(name) ?? SOLO,
      );
      store = openSqliteStore({ path: this.#path("db", name, "state.db"), clock, maxBytes, tap: lead });
      const link = await listenLink(this.#path("link", `lead-${name}.sock`), (socket) => lead.take(socket));
      this.#served.set(name, { store, lead, link });
    } catch (err) {
      // The others are served all the same; it is tried again at the next look.
      await store?.close();
      say(`cannot serve ${name}: ${messageOf(err)}`);
    }
  }

  /** Where its standby may lead by now, nobody is answered before that has said that it does not. */
  async #listen(name: string): Promise<void> {
    const { clock, say } = this.#options;
    const served = this.#served.get(name);
    if (served === undefined || served.listener !== undefined || !served.lead.mayServe) return;
    try {
      const path = this.#path("sock", name, "etcd.sock");
      rmSync(path, { force: true });
      const listener = await listenEtcd({ store: served.store, name, listen: { path }, clock });
      this.#served.set(name, { ...served, listener });
      say(`serves ${name}`);
    } catch (err) {
      say(`cannot serve ${name}: ${messageOf(err)}`);
    }
  }

  async #stop(name: string): Promise<void> {
    const served = this.#served.get(name);
    if (served === undefined) return;
    this.#served.delete(name);
    // First: what waits for the standby is let go with the store, and is to reach nobody.
    await served.listener?.close();
    await served.link.close();
    await served.store.close();
    this.#options.say(`serves ${name} no longer`);
  }

  async #follow(name: string, generation: number): Promise<void> {
    const { clock, say, maxBytes = MAX_BYTES } = this.#options;
    let follower: Follower | undefined;
    try {
      const made = new Follower({
        path: this.#path("standby", name, "state.db"),
        generation,
        // The same rows may lie in more pages.
        maxBytes: maxBytes * 1.25,
        clock,
        say: (line) => say(`${name}: ${line}`),
      });
      follower = made;
      const link = await listenLink(this.#path("link", `follow-${name}.sock`), (socket) => made.take(socket));
      this.#followed.set(name, { follower: made, link });
      say(`follows ${name} (generation ${generation})`);
    } catch (err) {
      await follower?.close();
      say(`cannot follow ${name}: ${messageOf(err)}`);
    }
  }

  /** The socket goes last: when it is gone, nobody has the database open. */
  async #unfollow(name: string): Promise<void> {
    const followed = this.#followed.get(name);
    if (followed === undefined) return;
    this.#followed.delete(name);
    this.#files.setFed(name, false);
    await followed.follower.close();
    await followed.link.close();
    this.#options.say(`follows ${name} no longer`);
  }

  #path(...parts: readonly string[]): string {
    return join(this.#options.folder, ...parts);
  }
}
