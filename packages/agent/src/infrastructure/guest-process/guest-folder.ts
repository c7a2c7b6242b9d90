// DIR/run/guests/<id>/: everything about one process. Only `io` is visible to the guest itself.
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { readJsonFile, readTextFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";

/** Written before the start; with `state` it says who the process is. */
export interface GuestCard {
  readonly id: string;
  readonly label: string;
  readonly bootId: string;
  readonly uuid?: string;
  readonly monitors: boolean;
  readonly startedAt: number;
  readonly uid?: number;
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

const ID = /^[a-z0-9][a-z0-9-]{0,40}$/;
const LOG_TAIL_BYTES = 4_000;

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

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
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

  readCard(): GuestCard | undefined {
    return readJsonFile(this.file("guest.json")) as GuestCard | undefined;
  }

  writeCard(card: GuestCard): void {
    writeFileAtomic(this.file("guest.json"), `${JSON.stringify(card)}\n`);
  }

  readState(): GuestState | undefined {
    return readJsonFile(this.file("state")) as GuestState | undefined;
  }

  readExit(): ExitRecord | undefined {
    return readJsonFile(this.file("exit")) as ExitRecord | undefined;
  }

  readEndNote(): EndNote | undefined {
    return readJsonFile(this.file("end.json")) as EndNote | undefined;
  }

  writeEndNote(note: EndNote): void {
    writeFileAtomic(this.file("end.json"), `${JSON.stringify(note)}\n`);
  }

  /** The end of what the program printed. */
  lastWords(): string {
    return (readTextFile(this.file("log")) ?? "").slice(-LOG_TAIL_BYTES).trim();
  }
}
