// Which cgroup hierarchies the host has: version 1 (one mount per controller), or version 2 (one mount for all).
import { readFileSync } from "node:fs";

export interface CgroupHierarchies {
  readonly version: 1 | 2;
  /** Version 1: controller -> mount point. */
  readonly v1: ReadonlyMap<string, string>;
  /** Version 2: the one mount point. */
  readonly v2: string | undefined;
}

/** Controllers a guest's group is made in. `systemd` is where the init system looks for whom to kill with a unit. */
const WANTED_V1 = ["cpu", "cpuacct", "memory", "blkio", "pids", "systemd"];

export function parseHierarchies(mountinfo: string): CgroupHierarchies {
  const v1 = new Map<string, string>();
  let v2: string | undefined;
  for (const line of mountinfo.split("\n")) {
    const [left, right] = line.split(" - ");
    const mountPoint = left?.split(" ")[4]?.replace(/\\040/g, " ");
    const [type, , options] = right?.split(" ") ?? [];
    if (mountPoint === undefined) continue;
    if (type === "cgroup2") v2 ??= mountPoint;
    if (type !== "cgroup") continue;
    for (const option of options?.split(",") ?? []) {
      const name = option.replace(/^name=/, "");
      if (WANTED_V1.includes(name)) v1.set(name, mountPoint);
    }
  }
  // A hybrid host mounts version 2 without controllers beside version 1.
  const version = v1.has("cpu") || v1.has("memory") || v2 === undefined ? 1 : 2;
  return { version, v1: version === 1 ? v1 : new Map(), v2: version === 2 ? v2 : undefined };
}

export function hostHierarchies(): CgroupHierarchies {
  return parseHierarchies(readFileSync("/proc/self/mountinfo", "utf8"));
}
