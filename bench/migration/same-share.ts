// The processor time of a guest of ours is that of its cgroup. Beside it, a bare QEMU would get a share for each of its threads:
// on a busy machine a multiple. So it gets a cgroup of its own, of the same weight, at the same place.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { ignore } from "@gpve/kit/background.ts";

const ROOTS = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];
const WEIGHTS = ["cpu.shares", "cpu.weight"];

/** The folder of the cgroup that gives a process its share; undefined = it has none of its own. */
export function shareOf(pid: number): string | undefined {
  const lines = readFileSync(`/proc/${pid}/cgroup`, "utf8").trim().split("\n");
  for (const line of lines) {
    const [, controllers = "", path = "/"] = line.split(":");
    if (path === "/" || (controllers !== "" && !controllers.split(",").includes("cpu"))) continue;
    for (const root of ROOTS)
      if (WEIGHTS.some((name) => existsSync(join(root, path, name)))) return join(root, path);
  }
  return undefined;
}

/** Returns what takes the cgroups away again, when the process has ended. Each node of a lab has a cgroup for its guests. */
export function joinShare(pid: number, like: string, name: string): () => void {
  const node = `${dirname(like)}-${name}`;
  const folders = [node, join(node, basename(like))];
  const originals = [dirname(like), like];
  for (const [at, folder] of folders.entries()) {
    mkdirSync(folder, { recursive: true });
    for (const weight of WEIGHTS) copy(join(originals[at] ?? "", weight), join(folder, weight));
    const children = join(folder, "cgroup.subtree_control");
    if (at === 0 && existsSync(children)) writeFileSync(children, "+cpu");
  }
  writeFileSync(join(folders[1] ?? "", "cgroup.procs"), String(pid));
  return () => {
    try {
      for (const folder of folders.toReversed()) rmdirSync(folder);
    } catch (err) {
      ignore(err, "it is empty, and goes with the machine");
    }
  };
}

function copy(from: string, to: string): void {
  if (existsSync(from)) writeFileSync(to, readFileSync(from));
}
