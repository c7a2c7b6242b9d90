// Guests outlive whoever started them: a test that fails halfway would leave them to all tests after it.
import { existsSync, readdirSync, readFileSync, rmdirSync } from "node:fs";
import { join } from "node:path";
import { readJsonFile } from "@gpve/kit/atomic-file.ts";

/** Ends every guest of a data directory, whether or not anything else of it still runs, and removes its cgroups. */
export function endGuestsOf(data: string): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      const argv = readFileSync(`/proc/${pid}/cmdline`, "utf8");
      if (argv.startsWith("qemu-system") && argv.includes(`${data}/run/guests/`))
        process.kill(Number(pid), "SIGKILL");
    } catch {
      // It ended while we looked.
    }
  }
  const { instanceId } = (readJsonFile(join(data, "instance.json")) ?? {}) as { instanceId?: string };
  if (instanceId !== undefined) removeCgroups(`gpve-${instanceId}`);
}

const CGROUPS = "/sys/fs/cgroup";
const ATTEMPTS = 40;

function removeCgroups(name: string): void {
  const found = [join(CGROUPS, name), ...readdirSync(CGROUPS).map((each) => join(CGROUPS, each, name))];
  for (let attempt = 0; attempt < ATTEMPTS && found.some((each) => existsSync(each)); attempt++) {
    for (const each of found.filter((path) => existsSync(path))) removeTree(each);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  }
}

function removeTree(folder: string): void {
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true }))
      if (entry.isDirectory()) removeTree(join(folder, entry.name));
    rmdirSync(folder);
  } catch {
    // What was killed has not ended yet, or a sibling link led here before.
  }
}
