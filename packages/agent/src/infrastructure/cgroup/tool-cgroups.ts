// A cgroup for each run of an image tool: what it reads may make it take all memory, processes or CPUs there are.
import { existsSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { GuestBounds } from "@gpve/domain/guest/guest-processes.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { killGroup, makeGroup, pairIn, removeFolder } from "./cgroup-files.ts";
import { type CgroupHierarchies, hostHierarchies } from "./hierarchies.ts";
import { setMemoryLimit } from "./memory-limit.ts";

export interface ToolGroup {
  /** What the tool joins. */
  readonly files: readonly string[];
  /** The kernel ended something in it for lack of memory. */
  ranOutOfMemory(): boolean;
  /** Ends whatever is left in it, and takes it away. */
  close(): Promise<void>;
}

/** Many times what an honest qemu-img takes: caches of metadata, buffers, a thread for each request. */
export const TOOL_BOUNDS: Required<Omit<GuestBounds, "cpus">> = { memoryBytes: 2 * 1024 ** 3, tasks: 256 };
const CPUS = 4;
const PERIOD_US = 100_000;
/** Half of what a guest or service has: images can wait. */
const SHARE = {
  1: { file: "cpu.shares", text: "512" },
  2: { file: "cpu.weight", text: "50" },
} as const;
const REMOVE_TRIES = 50;

export class ToolCgroups {
  readonly #parent: string;
  readonly #bounds: Required<Omit<GuestBounds, "cpus">>;
  readonly #hierarchies: CgroupHierarchies;
  readonly #clock: Clock;
  #made = 0;

  constructor(
    instanceId: string,
    bounds = TOOL_BOUNDS,
    hierarchies = hostHierarchies(),
    clock: Clock = systemClock,
  ) {
    this.#parent = `gpve-${instanceId}`;
    this.#bounds = bounds;
    this.#hierarchies = hierarchies;
    this.#clock = clock;
  }

  /** The most that one tool may have. */
  get memoryBytes(): number {
    return this.#bounds.memoryBytes;
  }

  open(): ToolGroup {
    if (this.#made === 0) this.#sweep();
    const name = `tool-${process.pid}-${this.#made++}`;
    const folders = this.#mounts().map((mount) => join(mount, this.#parent, name));
    makeGroup(this.#hierarchies, this.#parent, folders);
    this.#bound(name);
    return {
      files: folders.map((folder) => join(folder, "cgroup.procs")),
      ranOutOfMemory: () => this.#oomKills(name) > 0,
      close: () => this.#close(folders),
    };
  }

  #bound(name: string): void {
    const { version } = this.#hierarchies;
    const memory = this.#folder("memory", name);
    if (memory !== undefined) setMemoryLimit(memory, version, this.#bounds.memoryBytes);
    this.#write("pids", name, "pids.max", String(this.#bounds.tasks));
    this.#write("cpu", name, SHARE[version].file, SHARE[version].text);
    if (version === 2) this.#write("cpu", name, "cpu.max", `${CPUS * PERIOD_US} ${PERIOD_US}`);
    else this.#write("cpu", name, "cpu.cfs_quota_us", String(CPUS * PERIOD_US));
  }

  async #close(folders: readonly string[]): Promise<void> {
    killGroup(folders);
    for (let attempt = 0; attempt < REMOVE_TRIES; attempt++) {
      if (folders.filter((folder) => !removeFolder(folder)).length === 0) break;
      await this.#clock.sleep(20);
    }
    // With the last one, unless guests are there too.
    for (const mount of this.#mounts()) removeFolder(join(mount, this.#parent));
  }

  /** What an agent before us left: tools that still run keep theirs. */
  #sweep(): void {
    for (const mount of this.#mounts()) {
      const parent = join(mount, this.#parent);
      if (!existsSync(parent)) continue;
      for (const name of readdirSync(parent)) if (name.startsWith("tool-")) removeFolder(join(parent, name));
    }
  }

  #oomKills(name: string): number {
    const folder = this.#folder("memory", name);
    const file = this.#hierarchies.version === 2 ? "memory.events" : "memory.oom_control";
    return folder === undefined ? 0 : (pairIn(readTextFile(join(folder, file)) ?? "", "oom_kill") ?? 0);
  }

  #write(controller: string, name: string, file: string, text: string): void {
    const folder = this.#folder(controller, name);
    // A host without the controller bounds less; the tool's other limits hold.
    if (folder !== undefined && existsSync(join(folder, file))) writeFileSync(join(folder, file), text);
  }

  #folder(controller: string, name: string): string | undefined {
    const mount = this.#hierarchies.v2 ?? this.#hierarchies.v1.get(controller);
    return mount === undefined ? undefined : join(mount, this.#parent, name);
  }

  #mounts(): string[] {
    const { v1, v2 } = this.#hierarchies;
    if (v2 !== undefined) return [v2];
    return [...new Set(["memory", "pids", "cpu"].flatMap((name) => v1.get(name) ?? []))];
  }
}
