// Guests outlive whoever started them: a test that fails halfway would leave them to all tests after it.
import { existsSync, readdirSync, readFileSync, rmdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { natTableName } from "@gpve/agent/infrastructure/net/nat/nat-table.ts";
import { readJsonFile } from "@gpve/kit/atomic-file.ts";
import { exec } from "@gpve/kit/exec.ts";

/** Ends every guest of a data directory, whether or not anything else of it still runs, and removes its cgroups. */
export function endGuestsOf(data: string, suffix = ""): void {
  const instanceId = instanceOf(data);
  killGuests(data, instanceId);
  if (instanceId !== undefined) removeCgroups(`gpve-${instanceId}${suffix}`);
}

function instanceOf(data: string): string | undefined {
  return (readJsonFile(join(data, "instance.json")) as { instanceId?: string } | undefined)?.instanceId;
}

function killGuests(data: string, instanceId: string | undefined): void {
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith("qemu-system")) continue;
      if (isOf(pid, data, instanceId)) process.kill(Number(pid), "SIGKILL");
    } catch {
      // It ended while we looked.
    }
  }
}

/** Removes `folder`, in which the data of a node is, with its guests; the fence process, which outlives its agent, ends for that. */
export async function removeNode(folder: string, data: string): Promise<void> {
  const instanceId = instanceOf(data);
  killGuests(data, instanceId);
  rmSync(folder, { recursive: true, force: true });
  // It may make its folder again until it looks whether it is there.
  for (let attempt = 0; attempt < ATTEMPTS && isNamed(folder); attempt++)
    await new Promise((done) => setTimeout(done, 50));
  rmSync(folder, { recursive: true, force: true });
  if (instanceId !== undefined) removeCgroups(`gpve-${instanceId}`);
}

/** Whether a process has that folder in its command line. */
function isNamed(folder: string): boolean {
  return readdirSync("/proc").some((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(folder);
    } catch {
      return false; // it has just ended
    }
  });
}

/** What kept its user-mode networks from this machine: no agent was there to see them end. */
export async function removeWallOf(data: string): Promise<void> {
  const instanceId = instanceOf(data);
  if (instanceId === undefined || process.getuid?.() !== 0) return;
  await exec("nft", ["delete", "table", "inet", natTableName(instanceId)], { okCodes: [0, 1] });
}

/** By its group; where guests have none, by the files it has. Its sockets are descriptors, which its arguments do not tell. */
function isOf(pid: string, data: string, instanceId: string | undefined): boolean {
  const read = (file: string): string => readFileSync(`/proc/${pid}/${file}`, "utf8");
  if (instanceId !== undefined && read("cgroup").includes(`/gpve-${instanceId}/guest-`)) return true;
  return read("cmdline").includes(`${data}/`);
}

const CGROUPS = "/sys/fs/cgroup";
/** Twenty seconds: what was killed ends when a busy machine comes to it. */
const ATTEMPTS = 400;

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
