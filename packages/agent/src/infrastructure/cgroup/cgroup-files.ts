// What every cgroup of ours has in common: controllers, an end of all its processes, its removal.
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { kill as sendSignal } from "node:process";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import { isMissingFile } from "@gpve/kit/missing-file.ts";
import type { CgroupHierarchies } from "./hierarchies.ts";

/** A group's folders, one for each hierarchy that it is in; made where they are missing. */
export function makeGroup({ v2 }: CgroupHierarchies, parent: string, folders: readonly string[]): void {
  if (v2 !== undefined) {
    enableControllers(v2);
    mkdirSync(join(v2, parent), { recursive: true });
    enableControllers(join(v2, parent));
  }
  for (const folder of folders) mkdirSync(folder, { recursive: true });
}

/** Nothing in it survives, also not what is being started while we look. */
export function killGroup(folders: readonly string[]): void {
  for (const folder of folders) {
    if (isWritten(join(folder, "cgroup.kill"), "1")) continue;
    isWritten(join(folder, "pids.max"), "0");
  }
  const seen = new Set<number>();
  // Without cgroup.kill whoever was just forked is found at the next look.
  for (let found = true; found;) {
    found = false;
    for (const folder of folders)
      for (const line of (readTextFile(join(folder, "cgroup.procs")) ?? "").split("\n")) {
        const pid = Number(line);
        if (line === "" || seen.has(pid)) continue;
        seen.add(pid);
        found = true;
        killOne(pid);
      }
  }
}

/** False while it has processes. */
export function removeFolder(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (err) {
    return isMissingFile(err);
  }
}

/** The value of one `name value` line; undefined = there is none. Statistics have dozens, and few are asked for. */
export function pairIn(text: string, name: string): number | undefined {
  const start = `${name} `;
  const at = text.startsWith(start) ? 0 : text.indexOf(`\n${start}`) + 1;
  if (at === 0 && !text.startsWith(start)) return undefined;
  const end = text.indexOf("\n", at);
  return Number(text.slice(at + start.length, end < 0 ? undefined : end));
}

function enableControllers(folder: string): void {
  const known = readFileSync(join(folder, "cgroup.controllers"), "utf8").trim().split(/\s+/);
  for (const name of ["cpu", "memory", "io", "pids"]) {
    if (!known.includes(name)) continue;
    try {
      writeFileSync(join(folder, "cgroup.subtree_control"), `+${name}`);
    } catch (err) {
      ignore(err, "without the controller its figures are missing, which usage() shows as 0");
    }
  }
}

/** False where the kernel has no such file. */
function isWritten(path: string, text: string): boolean {
  if (!existsSync(path)) return false;
  try {
    writeFileSync(path, text);
    return true;
  } catch (err) {
    ignore(err, "the processes are killed one by one");
    return false;
  }
}

function killOne(pid: number): void {
  try {
    sendSignal(pid, "SIGKILL");
  } catch (err) {
    ignore(err, "it ended by itself meanwhile");
  }
}
