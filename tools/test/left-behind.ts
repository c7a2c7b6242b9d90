// What a run leaves on the machine although its tests passed: folders, cgroups, namespaces. Said, not judged: others may
// work on the same machine at the same time.
import { existsSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const CGROUPS = "/sys/fs/cgroup";

function ours(folder: string): string[] {
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.startsWith("gpve-"))
    .map((name) => join(folder, name));
}

/** `own`: the run's own folder, which goes when it ends. */
export function thingsOfTests(own = ""): ReadonlySet<string> {
  const hierarchies = existsSync(CGROUPS) ? readdirSync(CGROUPS).map((name) => join(CGROUPS, name)) : [];
  const folders = [tmpdir(), "/run/netns", CGROUPS, ...hierarchies.filter((path) => !path.includes("."))];
  const found = new Set(folders.flatMap(ours));
  found.delete(own);
  return found;
}

export function leftBehind(before: ReadonlySet<string>, after: ReadonlySet<string>): string[] {
  const left = [...after].filter((path) => !before.has(path));
  // A group has a folder in each hierarchy; one of them tells as much.
  const names = new Map(left.map((path) => [path.split("/").at(-1) ?? "", path]));
  return [...names.values()].toSorted();
}
