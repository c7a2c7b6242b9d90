// Persistent volumes of a worker: folders, and beside them how many bytes each was asked for. Whoever administers the cluster
// can change what the cluster says of that, but not these files. A machine has the folders on its own disk.
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { withHeldFile } from "@gpve/kit/held-file.ts";
import { leaveVolumes, volumesBase, volumesFolder } from "./volumes-place.ts";

export class VnodeVolumes {
  readonly #place: string;
  readonly #folder: string;
  readonly #asked: string;
  readonly #exec: Exec;

  /** `place`: where the worker's files are. */
  constructor(place: string, exec: Exec) {
    this.#place = place;
    this.#folder = volumesFolder(place);
    this.#asked = join(place, "asked");
    this.#exec = exec;
  }

  async make(volume: string, bytes: number): Promise<void> {
    const folder = join(this.#folder, volume);
    if (existsSync(folder)) return;
    this.ask(volume, bytes);
    mkdirSync(folder, { recursive: true });
    // Whatever user a container is may write; the folder above lets nobody else in.
    await withHeldFile(folder, ({ chmod }) => chmod(0o777));
  }

  /** It is counted from now on; the folder is somebody else's to make. */
  ask(volume: string, bytes: number): void {
    mkdirSync(this.#asked, { recursive: true, mode: 0o700 });
    writeFileAtomic(join(this.#asked, volume), String(bytes));
  }

  /** Those that were asked for and not removed. */
  asked(): readonly string[] {
    return existsSync(this.#asked) ? readdirSync(this.#asked).toSorted() : [];
  }

  async remove(volume: string): Promise<void> {
    // A pod may still have it and swap folders for links while it goes: this program follows none, however often it looks.
    await this.#exec("rm", ["-rf", "--one-file-system", "--", join(this.#folder, volume)]);
    rmSync(join(this.#asked, volume), { force: true });
  }

  /** All of them, to a folder that is not there yet, or left on their storage; answers with where there were any. */
  putAside(to: string): string | undefined {
    if (!existsSync(this.#folder) || this.list().length === 0) return undefined;
    if (volumesBase(this.#place) !== undefined) {
      leaveVolumes(this.#place);
      rmSync(this.#asked, { recursive: true, force: true });
      return this.#folder;
    }
    mkdirSync(dirname(to), { recursive: true, mode: 0o700 });
    renameSync(this.#folder, to);
    rmSync(this.#asked, { recursive: true, force: true });
    return to;
  }

  list(): readonly string[] {
    const folders = existsSync(this.#folder) ? readdirSync(this.#folder) : [];
    return [...new Set([...folders, ...this.asked()])].toSorted();
  }

  /** What all of them were asked for. */
  bytes(): number {
    return this.asked()
      .map((volume) => Number(readFileSync(join(this.#asked, volume), "utf8")))
      .reduce((sum, bytes) => sum + bytes, 0);
  }
}
