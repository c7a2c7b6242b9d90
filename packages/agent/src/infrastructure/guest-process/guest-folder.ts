// DIR/run/guests/<id>/: everything about one process. Only `io` is visible to the guest itself.
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, truncateSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readJsonFile, writeFileAtomic, writeFileWhole } from "@gpve/kit/atomic-file.ts";
import { readFileTail } from "@gpve/kit/file-tail.ts";

/** What only some kinds of process have. */
export interface KindCard {
  /** It is QEMU. */
  readonly monitors?: boolean;
  readonly uuid?: string;
}

/** Written before the start; with `state` it says who the process is. */
export interface ProcessCard extends KindCard {
  readonly id: string;
  readonly label: string;
  readonly bootId: string;
  readonly startedAt: number;
  readonly uid?: number;
  /** It is in the group of guests; those that an earlier version started are not. */
  readonly inGroup?: boolean;
  readonly confined: boolean;
  readonly note?: unknown;
}

/** Written by the supervisor once the guest runs. */
export interface GuestState {
  readonly supervisor: number;
  readonly supervisorStartTime: string;
  readonly pid: number;
  readonly startTime: string;
}

/** Written by the supervisor when the guest has ended. */
export interface ExitRecord {
  readonly pid: number;
  readonly startTime: string;
  readonly exitCode: number;
  readonly signal: number;
  readonly at: number;
}

/** Why it is ending, written before anything is done about it, so that a restart of ours does not forget. */
export interface EndNote {
  readonly by: "us" | "guest";
  readonly reason?: string;
}

/** A file of the host as it was before the guest got it. */
export interface LentFile {
  readonly path: string;
  readonly uid: number;
  readonly gid: number;
  readonly mode: number;
  /** Who got it. */
  readonly guest?: number;
}

const ID = /^[a-z0-9][a-z0-9-]{0,40}(?:\.[a-z0-9][a-z0-9-]{0,40})?$/;
const LOG_TAIL_BYTES = 4_000;
const MAX_LOG_BYTES = 4 * 1024 * 1024;

export class GuestFolder {
  readonly path: string;
  readonly id: string;

  constructor(guestsFolder: string, id: string) {
    if (!ID.test(id)) throw new AppError("request.invalid", `'${id}' cannot name a guest's folder`);
    this.id = id;
    this.path = join(guestsFolder, id);
  }

  static list(guestsFolder: string): GuestFolder[] {
    mkdirSync(guestsFolder, { recursive: true, mode: 0o700 });
    return readdirSync(guestsFolder)
      .filter((name) => ID.test(name))
      .map((name) => new GuestFolder(guestsFolder, name));
  }

  create(): void {
    mkdirSync(this.io, { recursive: true, mode: 0o700 });
    mkdirSync(this.root, { recursive: true, mode: 0o700 });
  }

  /** A supervisor may be writing its last file into it. */
  remove(): void {
    for (let attempt = 0; attempt < 10 && existsSync(this.path); attempt++)
      rmSync(this.path, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
  }

  file(name: string): string {
    return join(this.path, name);
  }

  get io(): string {
    return this.file("io");
  }

  /** An empty folder; inside the guest's namespace its `/` is mounted on it. */
  get root(): string {
    return this.file("root");
  }

  socket(name: string): string {
    return this.file(`${name}.sock`);
  }

  readCard(): ProcessCard | undefined {
    return this.#read("guest.json") as ProcessCard | undefined;
  }

  writeCard(card: ProcessCard): void {
    writeFileWhole(this.file("guest.json"), `${JSON.stringify(card)}\n`);
  }

  readLent(): readonly LentFile[] {
    return (this.#read("lent.json") as readonly LentFile[] | undefined) ?? [];
  }

  writeLent(files: readonly LentFile[]): void {
    writeFileAtomic(this.file("lent.json"), `${JSON.stringify(files)}\n`);
  }

  readState(): GuestState | undefined {
    return this.#read("state") as GuestState | undefined;
  }

  readExit(): ExitRecord | undefined {
    return this.#read("exit") as ExitRecord | undefined;
  }

  readEndNote(): EndNote | undefined {
    return this.#read("end.json") as EndNote | undefined;
  }

  /** A guest that this host's loss of power ended is known by its boot. */
  writeEndNote(note: EndNote): void {
    writeFileWhole(this.file("end.json"), `${JSON.stringify(note)}\n`);
  }

  /** It has a deadline, for whoever must end it without the agent. */
  isGuarded(): boolean {
    return existsSync(this.file("guarded"));
  }

  /** Before it gets a deadline, and after it has lost it. */
  markGuarded(guarded: boolean): void {
    if (guarded) writeFileAtomic(this.file("guarded"), "");
    else rmSync(this.file("guarded"), { force: true });
  }

  /** A guest that makes QEMU complain for ever must not fill the disk. Its log is opened for appending. */
  trimLog(): void {
    const size = statSync(this.file("log"), { throwIfNoEntry: false })?.size ?? 0;
    if (size > MAX_LOG_BYTES) truncateSync(this.file("log"), 0);
  }

  /** The end of what the program printed. */
  lastWords(): string {
    return readFileTail(this.file("log"), LOG_TAIL_BYTES).trim();
  }

  /** A file the host's power failure cut short says nothing. */
  #read(name: string): unknown {
    try {
      return readJsonFile(this.file(name));
    } catch (err) {
      if (err instanceof SyntaxError) return undefined;
      throw err;
    }
  }
}
