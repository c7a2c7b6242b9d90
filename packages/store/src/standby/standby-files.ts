// How the process that has the stores of a node is told of standbys, and how it tells: by files, beside those that say which
// are served (etcd-server/many-stores.ts).
//
//   FOLDER/lead/<name>                how the store goes with its standby (LeadConfig); absent: it has none
//   FOLDER/joined/<name>              the generation with which the standby has joined
//   FOLDER/state/<name>               how it goes (LeadState)
//   FOLDER/follow/<name>              there: a standby of somebody else's store is kept; {"generation": N}
//   FOLDER/standby/<name>/state.db    its database
//   FOLDER/fed/<name>                 there: its leader has been heard of in the last seconds
//   FOLDER/link/lead-<name>.sock      the end of the line at the store, and
//   FOLDER/link/follow-<name>.sock    at the standby: who enters the folder may be either
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Socket } from "node:net";
import { join } from "node:path";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { LeadConfig, LeadState } from "./lead-stream.ts";

export const STANDBY_FOLDERS = ["lead", "joined", "state", "follow", "standby", "fed", "link"] as const;

export class StandbyFiles {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  make(): void {
    for (const folder of STANDBY_FOLDERS)
      mkdirSync(join(this.#folder, folder), { recursive: true, mode: 0o700 });
  }

  path(...parts: readonly string[]): string {
    return join(this.#folder, ...parts);
  }

  lead(name: string): LeadConfig | undefined {
    return readJsonFile(this.path("lead", name)) as LeadConfig | undefined;
  }

  /** Read by a process of another user. */
  setLead(name: string, config: LeadConfig | undefined): void {
    if (config === undefined) rmSync(this.path("lead", name), { force: true });
    else this.#say(this.path("lead", name), config);
  }

  followed(): readonly string[] {
    return readdirSync(this.path("follow")).filter((name) => !name.includes(".tmp-"));
  }

  follow(name: string): { readonly generation: number } | undefined {
    return readJsonFile(this.path("follow", name)) as { generation: number } | undefined;
  }

  setFollow(name: string, generation: number | undefined): void {
    if (generation === undefined) rmSync(this.path("follow", name), { force: true });
    else this.#say(this.path("follow", name), { generation });
  }

  isFed(name: string): boolean {
    return existsSync(this.path("fed", name));
  }

  setFed(name: string, isFed: boolean): void {
    if (isFed === this.isFed(name)) return;
    if (isFed) writeFileSync(this.path("fed", name), "", { mode: 0o600 });
    else rmSync(this.path("fed", name), { force: true });
  }

  state(name: string): LeadState | undefined {
    return readJsonFile(this.path("state", name)) as LeadState | undefined;
  }

  /** Nobody's life hangs on it: whole, but not durable. */
  setState(name: string, state: LeadState): void {
    const path = this.path("state", name);
    const text = JSON.stringify(state);
    if (textOf(path) === text) return;
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }

  joined(name: string): { read(): number; write(generation: number): void } {
    const path = this.path("joined", name);
    return {
      read: () => Number(textOf(path) ?? 0),
      write: (generation) => writeFileAtomic(path, String(generation)),
    };
  }

  /** All that is said of the store of that name, here. */
  forget(name: string): void {
    for (const folder of ["lead", "joined", "state"]) rmSync(this.path(folder, name), { force: true });
  }

  #say(path: string, value: unknown): void {
    writeFileAtomic(path, JSON.stringify(value), 0o644);
  }
}

function textOf(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined; // it is not there
  }
}

export interface LinkEnd {
  close(): Promise<void>;
}

/** A socket to which the other end of a line is led. */
export async function listenLink(path: string, take: (socket: Socket) => void): Promise<LinkEnd> {
  rmSync(path, { force: true });
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
    take(socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, resolve);
  });
  return {
    async close() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
