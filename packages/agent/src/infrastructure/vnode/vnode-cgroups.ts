// The cgroup of a worker, `gpve-<instance>/vnode-<id>`: its pods are below it and together get no more than the worker has.
// A kubelet wants it in every hierarchy, and fills it with groups of its own.
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { kill as sendSignal } from "node:process";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestUsage } from "@gpve/domain/guest/guest-processes.ts";
import type { VnodeSize } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { killGroup, makeGroup, removeFolder } from "../cgroup/cgroup-files.ts";
import { hostHierarchies } from "../cgroup/hierarchies.ts";
import { readUsage } from "../cgroup/read-usage.ts";
import { setMemoryLimit } from "../cgroup/memory-limit.ts";

const PERIOD_US = 100_000;
/** Of all pods of a worker together. */
const MOST_TASKS = 32_768;
const LOOK_MS = 100;

export class VnodeCgroups {
  readonly #parent: string;
  readonly #clock: Clock;
  readonly #mounts: readonly string[];
  /** With the one of version 2 that a host of version 1 may have beside: runc makes groups there too. */
  readonly #all: readonly string[];
  readonly version: 1 | 2;

  constructor(instanceId: string, clock: Clock, mountinfo = readFileSync("/proc/self/mountinfo", "utf8")) {
    this.#parent = `gpve-${instanceId}`;
    this.#clock = clock;
    this.version = hostHierarchies().version;
    this.#mounts = cgroupMounts(mountinfo, this.version === 1 ? ["cgroup"] : ["cgroup2"]);
    this.#all = cgroupMounts(mountinfo, ["cgroup", "cgroup2"]);
  }

  /** As kubelet and containerd name it. */
  path(id: string): string {
    return `/${this.#parent}/vnode-${id}`;
  }

  ensure(id: string, size: VnodeSize): void {
    const folders = this.#folders(id);
    const { v2, v1, version } = hostHierarchies();
    makeGroup({ v2, v1, version }, this.#parent, folders);
    // Where their programs may be before they join a pod. Not in `cpuset`, whose groups take nobody until they are told CPUs.
    for (const folder of folders)
      if (!existsSync(join(folder, "cpuset.mems")) || version === 2)
        mkdirSync(join(folder, "shims"), { recursive: true });
    this.#limit(folders, size);
  }

  /** Uids of the pods that have a group here. */
  pods(id: string): ReadonlySet<string> {
    const [folder] = this.#folders(id).filter((each) => existsSync(join(each, "kubepods")));
    if (folder === undefined) return new Set();
    const pods = join(folder, "kubepods");
    const names = ["", "besteffort", "burstable"].flatMap((name) => foldersIn(join(pods, name)));
    return new Set(names.filter((name) => name.startsWith("pod")).map((name) => name.slice(3)));
  }

  /** What its pods take. */
  usage(id: string): GuestUsage {
    const { v2, v1, version } = hostHierarchies();
    return readUsage(version, (file, controller) => {
      const mount = v2 ?? v1.get(controller);
      return mount === undefined ? "" : (readTextFile(join(mount, this.path(id), file)) ?? "");
    });
  }

  /** Asks pods to end, and ends whatever is left. */
  async end(id: string, patienceMs: number): Promise<void> {
    const pods = this.#folders(id).flatMap((folder) => groupsIn(join(folder, "kubepods")));
    const asked = processesIn(pods);
    for (const pid of asked) signal(pid, "SIGTERM");
    // The first processes of pods that only hold a network never go by themselves: when nobody goes any more, it is enough.
    let [before, calm] = [asked.size, 0];
    for (let waited = 0; waited < patienceMs && before > 0 && calm < 5; waited += LOOK_MS) {
      await this.#clock.sleep(LOOK_MS);
      const now = processesIn(pods).size;
      calm = now === before ? calm + 1 : 0;
      before = now;
    }
    for (let attempt = 0; attempt < 50; attempt++) {
      const groups = this.#folders(id).flatMap(groupsIn);
      if (processesIn(groups).size === 0) return;
      killGroup(groups);
      await this.#clock.sleep(20);
    }
    throw new AppError("resource.busy", `worker ${id} still has processes that do not end`);
  }

  async remove(id: string): Promise<void> {
    for (let attempt = 0; attempt < 100; attempt++) {
      const left = this.#all
        .map((mount) => join(mount, this.path(id)))
        .flatMap(groupsIn)
        .toReversed()
        .filter((folder) => !removeFolder(folder));
      if (left.length === 0) {
        // Of the last one. Those in use stay.
        for (const mount of this.#all) removeFolder(join(mount, this.#parent));
        return;
      }
      await this.#clock.sleep(20);
    }
    throw new AppError("resource.busy", `the cgroup of worker ${id} still has processes`);
  }

  #limit(folders: readonly string[], { cpus, memoryBytes }: VnodeSize): void {
    const quota = String(Math.max(1_000, Math.round(cpus * PERIOD_US)));
    const set = (folder: string, file: string, text: string): void => {
      if (existsSync(join(folder, file))) writeFileSync(join(folder, file), text);
    };
    for (const folder of folders) {
      set(folder, "pids.max", String(MOST_TASKS));
      set(folder, "cpu.max", `${quota} ${PERIOD_US}`);
      set(folder, "cpu.cfs_period_us", String(PERIOD_US));
      set(folder, "cpu.cfs_quota_us", quota);
      if (existsSync(join(folder, this.version === 1 ? "memory.limit_in_bytes" : "memory.max")))
        setMemoryLimit(folder, this.version, memoryBytes);
    }
  }

  #folders(id: string): string[] {
    return this.#mounts.map((mount) => join(mount, this.path(id)));
  }
}

function cgroupMounts(mountinfo: string, types: readonly string[]): readonly string[] {
  const mounts = mountinfo.split("\n").flatMap((line) => {
    const [left = "", right = ""] = line.split(" - ");
    return types.includes(right.split(" ", 1)[0] ?? "") ? [left.split(" ")[4] ?? ""] : [];
  });
  return [...new Set(mounts)];
}

/** A group and all that are below it, from the top. */
function groupsIn(folder: string): string[] {
  return existsSync(folder)
    ? [folder, ...foldersIn(folder).flatMap((name) => groupsIn(join(folder, name)))]
    : [];
}

function foldersIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true })
      .filter((entry) => entry.isDirectory())
      .map(({ name }) => name);
  } catch (err) {
    ignore(err, "it went while we looked");
    return [];
  }
}

function processesIn(groups: readonly string[]): Set<number> {
  const lines = groups.flatMap((folder) => (readTextFile(join(folder, "cgroup.procs")) ?? "").split("\n"));
  return new Set(lines.filter((line) => line !== "").map(Number));
}

function signal(pid: number, name: "SIGTERM"): void {
  try {
    sendSignal(pid, name);
  } catch (err) {
    ignore(err, "it ended by itself meanwhile");
  }
}
