// The process that has the stores of all virtual clusters of this node. It is told by files which it serves, and outlives
// the agent.
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestFile, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { OWN_PROGRAM_ENV } from "@gpve/kit/own-program-env.ts";
import { STANDBY_FOLDERS, StandbyFiles } from "@gpve/store/standby/standby-files.ts";

/** How this program is started again: program, first arguments, and the folders that it reads. */
export interface SelfProgram {
  readonly program: string;
  readonly args: readonly string[];
  readonly folders: readonly string[];
}

const STORE_ID = "store";
const LINK = "link";
const READY_MS = 30_000;
const LOOK_MS = 20;
const LOOKS_A_SECOND = 1_000 / LOOK_MS;

export class StoreProcess {
  readonly #folder: string;
  readonly #processes: GuestProcesses;
  readonly #self: SelfProgram;
  readonly #clock: Clock;
  #starting: Promise<number> | undefined;

  constructor(deps: {
    readonly folder: string;
    readonly processes: GuestProcesses;
    readonly self: SelfProgram;
    readonly clock: Clock;
  }) {
    this.#folder = deps.folder;
    this.#processes = deps.processes;
    this.#self = deps.self;
    this.#clock = deps.clock;
  }

  socketFolder(name: string): string {
    return join(this.#folder, "sock", name);
  }

  socket(name: string): string {
    return join(this.socketFolder(name), "etcd.sock");
  }

  /** Resolves when the store of that cluster can be spoken to. */
  async serve(name: string, signal: AbortSignal): Promise<void> {
    const uid = await this.#ensureProcess();
    await this.#folderOf(join(this.#folder, "db", name), uid, 0o700);
    // What came from another node belongs to nobody here.
    for (const file of readdirSync(join(this.#folder, "db", name)))
      await withHeldFile(join(this.#folder, "db", name, file), async ({ facts, chown }) => {
        if (facts.uid !== uid && facts.isFile() && facts.nlink === 1) await chown(uid, uid);
      });
    // The cluster's own user owns it and enters; the process of the stores is in its group and makes the socket.
    mkdirSync(this.socketFolder(name), { recursive: true });
    await withHeldFile(this.socketFolder(name), async ({ chown, chmod }) => {
      await chown(-1, uid);
      await chmod(0o770);
    });
    if (!existsSync(join(this.#folder, "serve", name))) {
      rmSync(this.socket(name), { force: true });
      writeFileSync(join(this.#folder, "serve", name), "");
    }
    const began = this.#clock.monotonic();
    const refusedBefore = this.#refusals(name);
    for (let look = 1; !existsSync(this.socket(name)); look++) {
      // It tries every second. Twice: one may be of a try before this one.
      if (look % LOOKS_A_SECOND === 0 && this.#refusals(name) > refusedBefore + 1)
        throw new AppError(
          "store.unavailable",
          `the store of virtual cluster ${name} cannot be opened: ${this.said(name)}`,
        );
      if (this.#clock.monotonic() > began + READY_MS)
        throw new AppError(
          "request.timeout",
          `the store of virtual cluster ${name} does not come up: ${this.said(name)}`,
        );
      await this.#clock.sleep(LOOK_MS, signal);
    }
  }

  /** Whether it can be spoken to, or will be when its process runs again. */
  isServed(name: string): boolean {
    return existsSync(join(this.#folder, "serve", name));
  }

  /** Its database is closed; it stays. */
  async leave(name: string): Promise<void> {
    rmSync(join(this.#folder, "serve", name), { force: true });
    for (let attempt = 0; attempt < 250 && existsSync(this.socket(name)); attempt++)
      await this.#clock.sleep(20);
  }

  /** Resolves when nobody has its database open: SQLite takes its log away last. */
  async closed(name: string, signal: AbortSignal): Promise<void> {
    const log = join(this.#folder, "db", name, "state.db-wal");
    const until = this.#clock.monotonic() + READY_MS;
    while (existsSync(log)) {
      const running = this.#processes.get(STORE_ID);
      // What a store that has crashed left goes with the database, and is read by whoever opens it next.
      if (running === undefined || running.hasExited) return;
      if (this.#clock.monotonic() > until)
        throw new AppError(
          "request.timeout",
          `the store of virtual cluster ${name} is not closed: ${this.said(name)}`,
        );
      await this.#clock.sleep(20, signal);
    }
  }

  async remove(name: string): Promise<void> {
    await this.leave(name);
    new StandbyFiles(this.#folder).forget(name);
    for (const folder of ["db", "sock"])
      rmSync(join(this.#folder, folder, name), { recursive: true, force: true });
  }

  /** Ends when no cluster is left, and no other node's is followed. */
  async stopIfIdle(clusters: number): Promise<void> {
    const follow = join(this.#folder, "follow");
    if (clusters > 0 || (existsSync(follow) && readdirSync(follow).length > 0)) return;
    await this.#processes.get(STORE_ID)?.stop();
    if (this.#processes.get(STORE_ID) === undefined) await this.#processes.forget(STORE_ID);
  }

  /** Resolves when the process runs. */
  async ensure(): Promise<void> {
    await this.#ensureProcess();
  }

  /** The uid that it runs under; undefined = it does not run. */
  uid(): number | undefined {
    const running = this.#processes.get(STORE_ID);
    return running === undefined || running.hasExited ? undefined : (running.uid ?? 0);
  }

  /** The folder of the ends of lines, which another process of ours may have as its own. */
  async lendLinks(): Promise<string> {
    return this.#shareLinks(await this.#ensureProcess());
  }

  /** A folder that is the process's alone, with what is in it. */
  async own(path: string): Promise<void> {
    await this.#folderOf(path, await this.#ensureProcess(), 0o700);
  }

  /** Of the one, where it has said anything of it: what the process says of others is none of its tenant's business. */
  said(name: string): string {
    const lines = this.#lines();
    const own = lines.filter((line) => line.split(/[\s:]+/).includes(name));
    return (own.at(-1) ?? lines.join("\n")).slice(-500);
  }

  #lines(): readonly string[] {
    const { lastWords } = this.#processes as { lastWords?: (id: string) => string };
    return (lastWords?.call(this.#processes, STORE_ID) ?? "").trim().split("\n");
  }

  #refusals(name: string): number {
    return this.#lines().filter((line) => line.startsWith(`cannot serve ${name}: `)).length;
  }

  /** Answers with the uid that it runs under. */
  #ensureProcess(): Promise<number> {
    this.#starting ??= this.#startProcess().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  async #startProcess(): Promise<number> {
    const running = this.#processes.get(STORE_ID);
    if (running !== undefined && !running.hasExited) return running.uid ?? 0;
    for (const folder of ["", "serve", "db", "sock"])
      mkdirSync(join(this.#folder, folder), { recursive: true });
    const own = ["", "serve", "db", "sock"].map((folder): GuestFile => ({
      path: join(this.#folder, folder),
      access: "rw",
    }));
    const { program, args, folders } = this.#self;
    const started = await this.#processes.start({
      id: STORE_ID,
      label: "the stores of virtual clusters",
      program,
      args: [...args, "vc-store", this.#folder],
      env: OWN_PROGRAM_ENV,
      files: [...folders.map((path): GuestFile => ({ path, access: "ro" })), ...own.slice(0, 1)],
    });
    const uid = started.uid ?? 0;
    // What is below is the agent's to name and the process's to fill.
    for (const { path } of own) await this.#folderOf(path, uid, 0o711);
    // Who enters these could be a store's standby.
    for (const folder of STANDBY_FOLDERS)
      if (folder !== LINK) await this.#folderOf(join(this.#folder, folder), uid, 0o700);
    await this.#shareLinks(uid);
    return uid;
  }

  /** The process makes its sockets there as one of the group: it may be the folder of who keeps the lines to standbys. */
  async #shareLinks(uid: number): Promise<string> {
    const path = join(this.#folder, LINK);
    mkdirSync(path, { recursive: true });
    await withHeldFile(path, async ({ chown, chmod }) => {
      await chown(-1, uid);
      await chmod(0o770);
    });
    return path;
  }

  async #folderOf(path: string, uid: number, mode: number): Promise<void> {
    mkdirSync(path, { recursive: true });
    await withHeldFile(path, async ({ chown, chmod }) => {
      await chown(uid, -1);
      await chmod(mode);
    });
  }
}
