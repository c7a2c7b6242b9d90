// Standbys on this node, by the files that the process of the stores is told by, and those that it tells by.
//
//   FOLDER/standbys/<name>/standby.json   a standby of another node's cluster, with the keys to go on with
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptStandby, LeadWish, LineEnd, StandbyHost } from "@gpve/domain/vcluster/standby/ports.ts";
import type { StandbyRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { StandbyFiles } from "@gpve/store/standby/standby-files.ts";
import type { StoreProcess } from "../store-process.ts";

export interface LinuxStandbyHostDeps {
  /** DIR/vclusters */
  readonly folder: string;
  readonly stores: Pick<StoreProcess, "ensure" | "isServed" | "own" | "uid">;
  readonly clock: Clock;
}

const CLOSED_MS = 30_000;

export class LinuxStandbyHost implements StandbyHost {
  readonly #deps: LinuxStandbyHostDeps;
  readonly #files: StandbyFiles;

  constructor(deps: LinuxStandbyHostDeps) {
    this.#deps = deps;
    this.#files = new StandbyFiles(join(deps.folder, "store"));
  }

  lead(name: string, wish: LeadWish): void {
    const before = this.#files.lead(name);
    if (before !== undefined && before.generation > wish.generation)
      throw new AppError(
        "object.conflict",
        `what is said of the standby of virtual cluster '${name}' (${wish.generation}) is older than what holds (${before.generation})`,
      );
    this.#files.make();
    this.#files.setLead(name, wish);
  }

  state(name: string): StandbyRuntime | undefined {
    // Asked of every cluster at every report: of one that sleeps nothing is read.
    if (!this.#deps.stores.isServed(name)) return undefined;
    const wish = this.#files.lead(name);
    if (wish === undefined) return undefined;
    const state = this.#files.state(name);
    // What was said last has not been heard yet.
    if (state?.generation !== wish.generation || state.mode !== wish.mode) return undefined;
    const { generation, isJoined, isConnected, revision, confirmed } = state;
    return { generation, isJoined, isConnected, revision, confirmed };
  }

  hasLeads(): boolean {
    return hasFiles(this.#files.path("lead"));
  }

  isFed(name: string): boolean {
    return this.#deps.stores.uid() !== undefined && this.#files.isFed(name);
  }

  /** Asked all the time: what sleeps has no socket, and costs nothing here. */
  wantedLines(): readonly { readonly name: string; readonly generation: number }[] {
    const folder = this.#files.path("link");
    const sockets = existsSync(folder) ? readdirSync(folder) : [];
    return sockets.flatMap((socket) => {
      const [, name] = /^lead-(.+)\.sock$/.exec(socket) ?? [];
      const wish = name === undefined ? undefined : this.#files.lead(name);
      return name === undefined || wish?.mode !== "stream" ? [] : [{ name, generation: wish.generation }];
    });
  }

  leadEnd(name: string): LineEnd {
    return this.#end(`lead-${name}.sock`);
  }

  followEnd(name: string): LineEnd {
    if (this.get(name) === undefined)
      throw new AppError("object.not_found", `virtual cluster '${name}' has no standby on this node`);
    return this.#end(`follow-${name}.sock`);
  }

  async keepProcess(): Promise<boolean> {
    const { stores } = this.#deps;
    const isWanted = ["serve", "follow"].some((folder) => hasFiles(this.#files.path(folder)));
    if (!isWanted || stores.uid() !== undefined) return false;
    await stores.ensure();
    return true;
  }

  list(): readonly KeptStandby[] {
    const folder = join(this.#deps.folder, "standbys");
    const names = existsSync(folder) ? readdirSync(folder).toSorted() : [];
    return names.flatMap((name) => this.get(name) ?? []);
  }

  get(name: string): KeptStandby | undefined {
    return readJsonFile(join(this.#place(name), "standby.json")) as KeptStandby | undefined;
  }

  save(standby: KeptStandby): void {
    mkdirSync(this.#place(standby.name), { recursive: true, mode: 0o700 });
    writeFileAtomic(join(this.#place(standby.name), "standby.json"), `${JSON.stringify(standby)}\n`);
  }

  async follow(name: string): Promise<void> {
    const standby = this.get(name);
    if (standby === undefined) return;
    this.#files.make();
    await this.#deps.stores.ensure();
    await this.#deps.stores.own(this.#files.path("standby", name));
    if (this.#files.follow(name)?.generation !== standby.generation)
      this.#files.setFollow(name, standby.generation);
  }

  async unfollow(name: string): Promise<void> {
    const { clock, stores } = this.#deps;
    this.#files.make();
    this.#files.setFollow(name, undefined);
    const until = clock.monotonic() + CLOSED_MS;
    // Its socket is taken away last.
    while (existsSync(this.#files.path("link", `follow-${name}.sock`)) && stores.uid() !== undefined) {
      if (clock.monotonic() > until)
        throw new AppError(
          "request.timeout",
          `the standby of virtual cluster '${name}' is not closed by the process that has the stores`,
        );
      await clock.sleep(20);
    }
    rmSync(this.#files.path("link", `follow-${name}.sock`), { force: true });
  }

  adopt(name: string): void {
    const from = this.#files.path("standby", name);
    if (!existsSync(from)) return;
    const to = this.#files.path("db", name);
    rmSync(to, { recursive: true, force: true });
    mkdirSync(this.#files.path("db"), { recursive: true });
    renameSync(from, to);
  }

  async remove(name: string): Promise<void> {
    await this.unfollow(name);
    rmSync(this.#files.path("standby", name), { recursive: true, force: true });
    rmSync(this.#place(name), { recursive: true, force: true });
  }

  /** The folder is the process's own, which is no root: who connects looks whose the socket is. */
  #end(socket: string): LineEnd {
    const ownerUid = this.#deps.stores.uid() ?? 0;
    return { path: this.#files.path("link", socket), ownerUid, isLasting: true };
  }

  #place(name: string): string {
    return join(this.#deps.folder, "standbys", name);
  }
}

function hasFiles(folder: string): boolean {
  return existsSync(folder) && readdirSync(folder).length > 0;
}
