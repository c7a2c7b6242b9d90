// What a test that fails halfway would leave of virtual clusters: processes, networks, namespaces, cgroups.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readJsonFile } from "@gpve/kit/atomic-file.ts";
import { exec } from "@gpve/kit/exec.ts";
import { endGuestsOf } from "./left-guests.ts";

/** Lines that name what is there of the clusters of a data directory; empty = nothing. */
export async function leftOfClusters(data: string): Promise<readonly string[]> {
  const id = instanceOf(data);
  const { stdout } = await exec("ip", ["netns", "list"]);
  const cgroups = groupsOf(id).flatMap((folder) =>
    readdirSync(folder).filter((name) => /^(?:guest|vnode)-/.test(name)),
  );
  return [
    ...processesOf(data).map(({ pid, command }) => `process ${pid}: ${command.slice(0, 80)}`),
    ...stdout.split("\n").filter((line) => line.startsWith(`gpve-${id}-`)),
    ...cgroups.map((name) => `cgroup ${name}`),
    ...networksOf(data).map((name) => `bridge ${name}`),
    ...mountsOf(data).map((path) => `mount ${path}`),
    ...(await exec("nft", ["list", "tables"])).stdout.split("\n").filter((line) => line.endsWith(wallOf(id))),
  ];
}

/** Ends and removes all of it, the gpve whose they are included: it would start again what it sees end. */
export async function endClustersOf(data: string): Promise<void> {
  const [id, networks] = [instanceOf(data), networksOf(data)];
  const looksAfter = `up --data ${data} `;
  await endAll(() => commands().flatMap(({ pid, command }) => (command.includes(looksAfter) ? [pid] : [])));
  // Containers and what looks after them are only known by their groups; one may start another before it is ended.
  await endAll(() => [...processesOf(data).map(({ pid }) => pid), ...inWorkersOf(id)]);
  for (const path of mountsOf(data).toReversed()) await exec("umount", ["-l", path], { okCodes: [0, 1, 32] });
  const { stdout } = await exec("ip", ["netns", "list"]);
  for (const line of stdout.split("\n").filter((each) => each.startsWith(`gpve-${id}-`)))
    await exec("ip", ["netns", "delete", line.split(" ", 1)[0] ?? ""], { okCodes: [0, 1] });
  for (const name of networks) await exec("ip", ["link", "delete", "dev", name], { okCodes: [0, 1] });
  await exec("nft", ["delete", "table", "inet", wallOf(id)], { okCodes: [0, 1] });
  endGuestsOf(data, "-vc");
}

/** Where an instance has its groups, in each hierarchy. */
function groupsOf(id: string): string[] {
  const top = "/sys/fs/cgroup";
  return [top, ...readdirSync(top).map((name) => join(top, name))]
    .map((folder) => join(folder, `gpve-${id}-vc`))
    .filter((folder) => existsSync(folder));
}

/** Those of workers and all below, from the top. */
function vnodeGroups(folder: string, isWorker = (name: string) => name.startsWith("vnode-")): string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && isWorker(entry.name))
    .flatMap(({ name }) => [join(folder, name), ...vnodeGroups(join(folder, name), () => true)]);
}

function inWorkersOf(id: string): number[] {
  return groupsOf(id)
    .flatMap((each) => vnodeGroups(each))
    .flatMap((folder) => readFileSync(join(folder, "cgroup.procs"), "utf8").split("\n"))
    .filter(Boolean)
    .map(Number);
}

/** Until nothing of it is there. */
async function endAll(found: () => readonly number[]): Promise<void> {
  for (const end = performance.now() + 60_000; performance.now() < end; await sleep(50)) {
    const pids = found();
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        process.kill(pid, "SIGKILL");
      } catch {
        // It ended while we looked.
      }
    }
  }
}

/** In this machine's own view; those of workers go with them. */
function mountsOf(data: string): string[] {
  return readFileSync("/proc/self/mountinfo", "utf8")
    .split("\n")
    .map((line) => line.split(" ")[4] ?? "")
    .filter((path) => path.startsWith(`${data}/vclusters`));
}

function wallOf(instanceId: string): string {
  return `gpve_vc_${instanceId}`;
}

function instanceOf(data: string): string {
  return ((readJsonFile(join(data, "instance.json")) ?? {}) as { instanceId?: string }).instanceId ?? "?";
}

function processesOf(data: string): { pid: number; command: string }[] {
  return commands().filter(({ command }) => command.includes(`${data}/vclusters`));
}

/** What has ended and was not waited for has no command. */
function commands(): { pid: number; command: string }[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const command = readFileSync(`/proc/${name}/cmdline`, "utf8").replaceAll("\0", " ");
        return [{ pid: Number(name), command }];
      } catch {
        return []; // it ended while we looked
      }
    });
}

/** Bridges that its clusters say are theirs, and that are there. */
function networksOf(data: string): string[] {
  const folder = join(data, "vclusters", "clusters");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .map((name) => readJsonFile(join(folder, name, "cluster.json")) as { network?: number } | undefined)
    .flatMap((cluster) => (cluster?.network === undefined ? [] : [`vcb${cluster.network}`]))
    .filter((name) => existsSync(`/sys/class/net/${name}`));
}
