// One cgroup per guest, `gpve-<instance>/guest-<id>`, in every hierarchy that matters.
import { existsSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestBounds, GuestLimits, GuestUsage } from "@gpve/domain/guest/guest-processes.ts";
import { parsePressure } from "../facts/proc-usage.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import { killGroup, makeGroup, pairIn, removeFolder } from "./cgroup-files.ts";
import { type CgroupHierarchies, hostHierarchies } from "./hierarchies.ts";
import { readUsage } from "./read-usage.ts";
import { limitIn, memoryFile, setMemoryLimit } from "./memory-limit.ts";

const CPU_PERIOD_US = 100_000;

export class GuestCgroups {
  readonly #hierarchies: CgroupHierarchies;
  readonly #parent: string;
  readonly #clock: Clock;

  constructor(instanceId: string, hierarchies = hostHierarchies(), clock: Clock = systemClock) {
    this.#hierarchies = hierarchies;
    this.#parent = `gpve-${instanceId}`;
    this.#clock = clock;
  }

  get version(): 1 | 2 {
    return this.#hierarchies.version;
  }

  /** Makes the guest's groups; returns the cgroup.procs files to join. */
  create(id: string): string[] {
    return this.#make(`guest-${id}`);
  }

  /** Where supervisors stay: outside the agent's own group, which may be stopped as a whole. */
  holdFiles(): string[] {
    return this.#make("supervisors");
  }

  apply(id: string, limits: GuestLimits): void {
    const { cpuUnits, cpuLimit, memoryMaxBytes, ioWeight } = limits;
    const two = this.version === 2;
    if (cpuUnits !== undefined)
      this.#write(
        id,
        two ? "cpu.weight" : "cpu.shares",
        "cpu",
        String(two ? clamp(cpuUnits || 100, 1, 10_000) : clamp(cpuUnits || 1_024, 2, 262_144)),
      );
    if (cpuLimit !== undefined) {
      const quota = cpuLimit === 0 ? undefined : Math.max(1_000, Math.round(cpuLimit * CPU_PERIOD_US));
      if (two) this.#write(id, "cpu.max", "cpu", `${quota ?? "max"} ${CPU_PERIOD_US}`);
      else {
        this.#write(id, "cpu.cfs_period_us", "cpu", String(CPU_PERIOD_US));
        this.#write(id, "cpu.cfs_quota_us", "cpu", String(quota ?? -1));
      }
    }
    if (memoryMaxBytes !== undefined) this.#setMemory(id, memoryMaxBytes);
    if (ioWeight !== undefined) this.#writeIoWeight(id, clamp(ioWeight, 1, 10_000));
    for (const limit of limits.io ?? [])
      if (two)
        this.#write(
          id,
          "io.max",
          "io",
          `${limit.device} rbps=${limit.readBytesPerSecond ?? "max"} wbps=${limit.writeBytesPerSecond ?? "max"}`,
        );
      else {
        const rate = (value: number | undefined): string => `${limit.device} ${value ?? 0}`;
        this.#write(id, "blkio.throttle.read_bps_device", "blkio", rate(limit.readBytesPerSecond));
        this.#write(id, "blkio.throttle.write_bps_device", "blkio", rate(limit.writeBytesPerSecond));
      }
  }

  /** Raises the guest's bounds to these. Returns what this host cannot bound, in words. */
  bound(id: string, { memoryBytes = 0, tasks = 0, cpus = 0 }: GuestBounds): string[] {
    const missing: string[] = [];
    const raise = (wanted: number, file: string, controller: string, set: () => void): void => {
      const path = this.#file(id, file, controller);
      const isThere = path !== undefined && existsSync(path);
      if (wanted > 0 && !isThere)
        missing.push(`this host has no ${controller} cgroup: ${file} is not bounded`);
      // Nobody has bounded it yet, or to less.
      const now = isThere ? limitIn(path) : 0;
      if (isThere && wanted > 0 && (now === Number.POSITIVE_INFINITY || wanted > now)) set();
    };
    raise(memoryBytes, memoryFile(this.version), "memory", () => this.#setMemory(id, memoryBytes));
    raise(tasks, "pids.max", "pids", () => this.#write(id, "pids.max", "pids", String(tasks)));
    const quota = this.#file(id, this.version === 2 ? "cpu.max" : "cpu.cfs_quota_us", "cpu");
    if (cpus > 0 && quota !== undefined && existsSync(quota)) this.apply(id, { cpuLimit: cpus });
    else if (cpus > 0) missing.push("this host has no cpu cgroup: CPU time is not bounded");
    return missing;
  }

  #setMemory(id: string, bytes: number): void {
    this.#set(id, memoryFile(this.version), "memory", (path) =>
      setMemoryLimit(dirname(path), this.version, bytes),
    );
  }

  usage(id: string): GuestUsage {
    return readUsage(this.version, (file, controller) => this.#read(id, file, controller));
  }

  /** Percent of the last ten seconds spent waiting; empty where the kernel does not count it by cgroup. */
  pressure(id: string): Record<string, number> {
    const found: Record<string, number> = {};
    if (this.version === 1) return found;
    for (const what of ["cpu", "io", "memory"] as const) {
      const text = this.#read(id, `${what}.pressure`, what);
      for (const kind of ["some", "full"] as const) {
        const value = parsePressure(text, kind);
        if (value !== undefined) found[`${what}${kind}`] = value;
      }
    }
    return found;
  }

  /** Asks the kernel to page out as much as it can: to swap, where there is any. undefined = it takes no such wish. */
  async reclaim(id: string): Promise<number | undefined> {
    const two = this.version === 2;
    const file = this.#file(id, two ? "memory.reclaim" : "memory.force_empty", "memory");
    if (file === undefined || !existsSync(file)) return undefined;
    const before = this.usage(id).memoryBytes;
    try {
      await writeFile(file, two ? String(before) : "0");
    } catch (err) {
      ignore(err, "it gave less than all, which is what is counted");
    }
    return Math.max(0, before - this.usage(id).memoryBytes);
  }

  /** How often the kernel killed something here for lack of memory. */
  oomKills(id: string): number {
    const text =
      this.version === 2
        ? this.#read(id, "memory.events", "memory")
        : this.#read(id, "memory.oom_control", "memory");
    return pairIn(text, "oom_kill") ?? 0;
  }

  /** Whatever is left of a start that failed half-way, or of what an ended guest had started. */
  killAll(id: string): void {
    killGroup(this.#folders(`guest-${id}`));
  }

  /** The group can only go once its last process has; a killed one may take a moment. */
  async remove(id: string): Promise<void> {
    for (let attempt = 0; attempt < 50; attempt++) {
      const left = this.#folders(`guest-${id}`).filter((folder) => !removeFolder(folder));
      if (left.length === 0) return;
      await this.#clock.sleep(20);
    }
    throw new AppError("resource.busy", `the cgroup of guest ${id} still has processes`);
  }

  /** Takes the instance's own groups away once no guest is left; whatever is in use stays. */
  removeAll(): void {
    for (const folder of [...this.#folders("supervisors"), ...this.#folders("")]) removeFolder(folder);
  }

  #make(name: string): string[] {
    const folders = this.#folders(name);
    makeGroup(this.#hierarchies, this.#parent, folders);
    return folders.map((folder) => join(folder, "cgroup.procs"));
  }

  #folders(name: string): string[] {
    const { v1, v2 } = this.#hierarchies;
    const mounts = v2 === undefined ? [...new Set(v1.values())] : [v2];
    return mounts.map((mount) => join(mount, this.#parent, name));
  }

  #file(id: string, file: string, controller: string): string | undefined {
    const mount = this.#hierarchies.v2 ?? this.#hierarchies.v1.get(controller);
    return mount === undefined ? undefined : join(mount, this.#parent, `guest-${id}`, file);
  }

  #read(id: string, file: string, controller: string): string {
    const path = this.#file(id, file, controller);
    return path === undefined ? "" : (readTextFile(path) ?? "");
  }

  #write(id: string, file: string, controller: string, text: string): void {
    this.#set(id, file, controller, (path) => writeFileSync(path, text));
  }

  #set(id: string, file: string, controller: string, change: (path: string) => void): void {
    const path = this.#file(id, file, controller);
    if (path === undefined)
      throw new AppError("feature.unsupported", `this host has no ${controller} cgroup: ${file} not set`);
    try {
      change(path);
    } catch (cause) {
      throw new AppError("internal.error", `cannot set ${file} of guest ${id}: ${messageOf(cause)}`, {
        cause,
      });
    }
  }

  #writeIoWeight(id: string, weight: number): void {
    const names = this.version === 2 ? ["io.weight", "io.bfq.weight"] : ["blkio.weight", "blkio.bfq.weight"];
    const name = names.find((file) => {
      const path = this.#file(id, file, this.version === 2 ? "io" : "blkio");
      return path !== undefined && existsSync(path);
    });
    if (name === undefined)
      throw new AppError("feature.unsupported", "this kernel cannot weigh disk access between guests");
    this.#write(id, name, this.version === 2 ? "io" : "blkio", String(weight));
  }
}

function clamp(value: number, least: number, most: number): number {
  return Math.min(most, Math.max(least, Math.round(value)));
}
