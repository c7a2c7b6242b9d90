// Servers and agents of a lab restarted one by one under a steady load, as docs/how-to/rolling-upgrade.md says, and what
// would tell that a guest was touched meanwhile.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, vi } from "vitest";
import { ApiLoad, type LoadRequest, type LoadResult } from "./api-load.ts";
import { apiOf } from "./gpve.ts";
import { runByAgent, untilAgentAnswers } from "./guest.ts";
import type { TestLab } from "./lab.ts";

const KINDS = 10;

export interface UpgradeGuest {
  readonly vmid: number;
  readonly node: string;
}

export interface Upgrade extends LoadResult {
  /** For whoever reads how it went. */
  readonly report: string;
}

/** Of each guest: its program, when it was started, and the boot that its kernel is in. */
export async function marksOf(
  lab: TestLab,
  guests: readonly UpgradeGuest[],
): Promise<Record<string, unknown>[]> {
  const found = [];
  for (const { vmid, node } of guests) {
    const path = `/nodes/${node}/qemu/${vmid}`;
    const file = (name: string): Record<string, unknown> =>
      JSON.parse(
        readFileSync(join(lab.data, "nodes", node, "run/guests", String(vmid), name), "utf8"),
      ) as Record<string, unknown>;
    await untilAgentAnswers(lab.api(), path);
    const boot = await runByAgent(lab.api(), path, "cat", "/proc/sys/kernel/random/boot_id");
    found.push({ vmid, pid: file("state")["pid"], startedAt: file("guest.json")["startedAt"], boot });
  }
  return found;
}

/** Every server, then every agent, `rounds` times, while so many requests a second are made. */
export async function upgradeUnderLoad(
  lab: TestLab,
  guests: readonly UpgradeGuest[],
  options: { readonly rounds: number; readonly perSecond: number },
): Promise<Upgrade> {
  const begun = performance.now();
  const load = new ApiLoad(lab.credentials(), options.perSecond, (at) => requestOf(guests, at));
  const told: string[] = [];
  const step = async (part: "server" | "agent", node: string): Promise<void> => {
    const from = performance.now();
    await lab.fault("restart", node, `--${part}-only`);
    for (const url of lab.credentials().urls) await isBack(lab, url);
    const [fromS, forS] = [from - begun, performance.now() - from].map((ms) => (ms / 1000).toFixed(1));
    told.push(`${part} ${node} from ${fromS} s on: ${forS} s`);
  };
  let result: LoadResult;
  try {
    for (let round = 0; round < options.rounds; round++)
      for (const part of ["server", "agent"] as const)
        for (const node of lab.credentials().nodes) await step(part, node);
    result = await load.stop();
  } catch (err) {
    console.log(told.join("\n"), await load.stop());
    throw err;
  }
  const { sent, served, retried, failed, slowest, p50Ms, p99Ms, maxMs, perSecond } = result;
  const report = [
    ...told,
    `${guests.length} guests, ${sent} requests at ${perSecond.toFixed(1)}/s: ${served} served, ${retried.length} by a further server, ${failed.length} failed`,
    `p50 ${p50Ms.toFixed(0)} ms, p99 ${p99Ms.toFixed(0)} ms, max ${maxMs.toFixed(0)} ms`,
    ...slowest,
    ...retried.slice(0, 10),
  ].join("\n");
  return { ...result, report };
}

/** As the page says: ready, and every node seen from it. */
async function isBack(lab: TestLab, url: string): Promise<void> {
  await vi.waitFor(
    async () => {
      const { status } = await apiOf({ ...lab.credentials(), url }, {}, "/api/v1")("GET", "/readyz");
      expect(status).toBe(200);
      const rows = (await lab.api(url)("GET", "/nodes")).data as readonly { status: string }[];
      expect(rows.map((row) => row.status)).toEqual(["online", "online", "online"]);
    },
    { timeout: 180_000, interval: 200 },
  );
}

/** Reads and writes, of the cluster, of nodes and of guests. */
function requestOf(guests: readonly UpgradeGuest[], at: number): LoadRequest {
  // Every guest gets every kind: writes to one and the same would only wait for each other.
  const { node, vmid } = guests[Math.floor(at / KINDS) % guests.length] ?? { node: "n1", vmid: 0 };
  const path = `/nodes/${node}/qemu/${vmid}`;
  const kinds: readonly LoadRequest[] = [
    { method: "GET", path: "/cluster/resources" },
    { method: "GET", path: `${path}/status/current` },
    { method: "GET", path: "/nodes" },
    { method: "GET", path: `${path}/config` },
    { method: "PUT", path: "/cluster/options", params: { description: `load ${at}` } },
    { method: "GET", path: `/nodes/${node}/status` },
    { method: "GET", path: "/cluster/status" },
    { method: "PUT", path: `${path}/config`, params: { description: `load ${at}` } },
    { method: "GET", path: `/nodes/${node}/qemu` },
    { method: "GET", path: "/cluster/tasks" },
  ];
  return kinds[at % KINDS] ?? { method: "GET", path: "/version" };
}
