// Installed components as files:
//
//   FOLDER/objects/<sha256>                 every program once, whatever brought it
//   FOLDER/<component>/<version>/<program>  hard links, and manifest.json
//   FOLDER/.work/<id>                       what is being fetched or built
import { createHash } from "node:crypto";
import {
  createReadStream,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { copyFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { readJsonFile } from "@gpve/kit/atomic-file.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { waitForProcessLock } from "@gpve/kit/process-lock.ts";
import type { ComponentStore, InstalledComponent, InstalledProgram } from "@gpve/domain/component/ports.ts";

const MANIFEST = "manifest.json";

/** Says which one is not there. */
export async function copyPrograms(from: string, to: string, programs: readonly string[]): Promise<void> {
  for (const program of programs) {
    const path = join(from, program);
    await copyFile(path, join(to, program)).catch((cause: unknown) => {
      const isMissing = (cause as NodeJS.ErrnoException).code === "ENOENT";
      const why = isMissing ? "there is no such file on this node" : messageOf(cause);
      throw new AppError("object.not_found", `cannot import ${path}: ${why}`, { cause });
    });
  }
}

export function makeExecutable(path: string): Promise<void> {
  return withHeldFile(path, ({ chmod }) => chmod(0o755));
}

export class ComponentFolder implements ComponentStore {
  readonly #folder: string;
  readonly #clock: Clock;
  readonly #sums = new Map<string, string>();

  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
  }

  list(): readonly InstalledComponent[] {
    return foldersIn(this.#folder)
      .filter((name) => name !== "objects")
      .flatMap((name) =>
        foldersIn(join(this.#folder, name)).flatMap((version) => this.get(name, version) ?? []),
      );
  }

  get(name: string, version: string): InstalledComponent | undefined {
    return readJsonFile(join(this.#folder, name, version, MANIFEST)) as InstalledComponent | undefined;
  }

  program(name: string, version: string, program: string): string {
    return join(this.#folder, name, version, program);
  }

  workFolder(id: string): string {
    const folder = join(this.#folder, ".work", id);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    return folder;
  }

  discard(id: string): void {
    rmSync(join(this.#folder, ".work", id), { recursive: true, force: true });
  }

  async put(
    { name, version, origin }: Pick<InstalledComponent, "name" | "version" | "origin">,
    folder: string,
    programs: readonly string[],
  ): Promise<InstalledComponent> {
    const objects = join(this.#folder, "objects");
    mkdirSync(objects, { recursive: true });
    mkdirSync(join(this.#folder, name), { recursive: true });
    const fresh = join(this.#folder, name, `.new-${process.pid}-${version}`);
    rmSync(fresh, { recursive: true, force: true });
    mkdirSync(fresh);
    try {
      const found: Record<string, InstalledProgram> = {};
      for (const program of programs) {
        const path = join(folder, program);
        const { isFile, size } = factsOf(path);
        if (!isFile)
          throw new AppError("object.not_found", `${folder} has no program '${program}' of ${name}`);
        await makeExecutable(path);
        const sha256 = await sha256Of(path);
        const object = join(objects, sha256);
        // Moved, so that nobody who can write where it came from can change it any more. One that is there and was changed
        // since is no reason to keep it.
        if (!existsSync(object) || (await this.#sum(object)) !== sha256) await rename(path, object);
        linkSync(object, join(fresh, program));
        found[program] = { sha256, sizeBytes: size };
      }
      const installed = { name, version, origin, installedAt: this.#clock.now(), programs: found };
      writeFileSync(join(fresh, MANIFEST), `${JSON.stringify(installed, undefined, 2)}\n`);
      this.#replace(join(this.#folder, name, version), fresh);
      return installed;
    } finally {
      rmSync(fresh, { recursive: true, force: true });
    }
  }

  async faults(name: string, version: string): Promise<readonly string[]> {
    const installed = this.get(name, version);
    if (installed === undefined) return [`${name} ${version} is not installed`];
    const faults: string[] = [];
    for (const [program, { sha256 }] of Object.entries(installed.programs)) {
      const path = this.program(name, version, program);
      if (!factsOf(path).isFile) faults.push(`${path} is missing`);
      else if ((await this.#sum(path)) !== sha256)
        faults.push(`${path} is not what was installed: its SHA-256 is another`);
    }
    return faults;
  }

  /** Read once while it stays the same file: every new cluster asks. */
  async #sum(path: string): Promise<string> {
    const { ino, size, mtimeMs, ctimeMs } = lstatSync(path);
    const file = [path, ino, size, mtimeMs, ctimeMs].join(" ");
    const sum = this.#sums.get(file) ?? (await sha256Of(path));
    this.#sums.set(file, sum);
    return sum;
  }

  async alone<T>(name: string, version: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    mkdirSync(this.#folder, { recursive: true });
    const path = join(this.#folder, `.${name}-${version}.lock`);
    const lock = await waitForProcessLock(path, `another installation of ${name} ${version}`, {
      signal,
      clock: this.#clock,
    });
    try {
      return await work();
    } finally {
      lock.release();
    }
  }

  #replace(target: string, fresh: string): void {
    if (!existsSync(target)) {
      renameSync(fresh, target);
      return;
    }
    const old = mkdtempSync(`${target}.old-`);
    renameSync(target, join(old, "it"));
    renameSync(fresh, target);
    rmSync(old, { recursive: true, force: true });
  }
}

function factsOf(path: string): { isFile: boolean; size: number } {
  const facts = lstatSync(path, { throwIfNoEntry: false });
  return { isFile: facts?.isFile() === true, size: facts?.size ?? 0 };
}

async function sha256Of(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

/** Names of folders that are no work of ours. */
function foldersIn(folder: string): string[] {
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith(".") && !entry.name.includes(".old-"))
    .map(({ name }) => name)
    .toSorted();
}
