// Servers and agents are restarted one by one under a steady load with guests running, as docs/how-to/rolling-upgrade.md
// says. GPVE_UPGRADE_GUESTS: how many guests; GPVE_UPGRADE_ROUNDS: how often round; GPVE_UPGRADE_HA=1: one of the guests is
// under HA, whose node a machine that is too busy fences.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { ApiLoad, type LoadRequest } from "../support/api-load.ts";
import { runByAgent, untilAgentAnswers } from "../support/guest.ts";
import { apiOf } from "../support/gpve.ts";
import { newLab, type TestLab } from "../support/lab.ts";
import { MovingGuest } from "../support/moving-guest.ts";

const problem =
  (process.env["GPVE_UPGRADE_GUESTS"] === undefined
    ? "it belongs to the long run: GPVE_UPGRADE_GUESTS=3 runs a short one"
    : undefined) ??
  (await networkProblem()) ??
  (existsSync("/usr/bin/etcd") ? undefined : "etcd is missing: apt-get install etcd-server");
if (problem !== undefined) console.warn(`SKIPPED a rolling upgrade: ${problem}`);

const GUESTS = Number(process.env["GPVE_UPGRADE_GUESTS"] ?? 3);
const ROUNDS = Number(process.env["GPVE_UPGRADE_ROUNDS"] ?? 1);
const UNDER_HA = process.env["GPVE_UPGRADE_HA"] === "1";
const PER_SECOND = 50;
const FIRST_VMID = 300;

describe.skipIf(problem !== undefined)("a cluster that is upgraded while it works", () => {
  let lab: TestLab;
  const guests: MovingGuest[] = [];
  const nodes = ["n1", "n2", "n3"] as const;

  /** What would tell that somebody touched it: its program, its supervisor, and the boot that its kernel is in. */
  const marks = async (guest: MovingGuest): Promise<Record<string, unknown>> => {
    const file = (name: string): Record<string, unknown> =>
      JSON.parse(
        readFileSync(join(lab.data, "nodes", guest.node, "run/guests", String(guest.vmid), name), "utf8"),
      ) as Record<string, unknown>;
    await untilAgentAnswers(lab.api(), guest.path);
    const boot = await runByAgent(lab.api(), guest.path, "cat", "/proc/sys/kernel/random/boot_id");
    return { vmid: guest.vmid, pid: file("state")["pid"], startedAt: file("guest.json")["startedAt"], boot };
  };
  const allMarks = async (): Promise<Record<string, unknown>[]> => {
    const found = [];
    for (const guest of guests) found.push(await marks(guest));
    return found;
  };
  /** As the page says: ready, and every node seen from it. */
  const isBack = (url: string): Promise<void> =>
    vi.waitFor(
      async () => {
        const ready = await fetchReady(url);
        expect(ready).toBe(200);
        const rows = (await lab.api(url)("GET", "/nodes")).data as readonly { status: string }[];
        expect(rows.map(({ status }) => status)).toEqual(["online", "online", "online"]);
      },
      { timeout: 180_000, interval: 200 },
    );
  const fetchReady = async (url: string): Promise<number> =>
    (await apiOf({ ...lab.credentials(), url }, {}, "/api/v1")("GET", "/readyz")).status;
  const load = (at: number): LoadRequest => {
    const guest = guests[at % guests.length];
    const path = guest?.path ?? "";
    const kinds: readonly LoadRequest[] = [
      { method: "GET", path: "/cluster/resources" },
      { method: "GET", path: `${path}/status/current` },
      { method: "GET", path: "/nodes" },
      { method: "GET", path: `${path}/config` },
      { method: "PUT", path: "/cluster/options", params: { description: `load ${at}` } },
      { method: "GET", path: `/nodes/${guest?.node}/status` },
      { method: "GET", path: "/cluster/status" },
      { method: "PUT", path: `${path}/config`, params: { description: `load ${at}` } },
      { method: "GET", path: `/nodes/${guest?.node}/qemu` },
      { method: "GET", path: "/cluster/tasks" },
    ];
    return kinds[at % kinds.length] ?? { method: "GET", path: "/version" };
  };

  beforeAll(
    async () => {
      lab = newLab();
      await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
      for (let at = 0; at < GUESTS; at++) {
        const [vmid, node] = [FIRST_VMID + at, nodes[at % 3] ?? "n1"];
        // The first one also counts over a connection that must never break.
        guests.push(
          at === 0
            ? await MovingGuest.start(lab, vmid, node, "shared")
            : await MovingGuest.make(lab, vmid, node, "shared", { start: 1 }),
        );
      }
      if (!UNDER_HA) return;
      const managed = await lab.api()("POST", "/cluster/ha/resources", { sid: `vm:${FIRST_VMID + 1}` });
      expect(managed.status, managed.text).toBe(200);
    },
    600_000 + GUESTS * 60_000,
  );
  afterAll(async () => {
    for (const guest of guests) guest.close();
    await lab?.remove();
  });

  test(
    "every request is served by one of the servers, and no guest is touched",
    async () => {
      const before = await allMarks();
      const loadBegun = performance.now();
      const running = new ApiLoad(lab.credentials(), PER_SECOND, load);
      const told: string[] = [];
      const step = async (what: string, ...args: string[]): Promise<void> => {
        const begun = performance.now();
        await lab.fault("restart", ...(args as [string]));
        for (const url of lab.credentials().urls) await isBack(url);
        const [fromS, forS] = [begun - loadBegun, performance.now() - begun].map((ms) =>
          (ms / 1000).toFixed(1),
        );
        told.push(`${what} ${args[0]} from ${fromS} s on: ${forS} s`);
      };
      const result = await (async () => {
        for (let round = 0; round < ROUNDS; round++) {
          for (const node of nodes) await step("server", node, "--server-only");
          for (const node of nodes) await step("agent", node, "--agent-only");
        }
        return running.stop();
      })().catch(async (err: unknown) => {
        console.log(told.join("\n"), await running.stop());
        throw err;
      });
      const { sent, served, retried, failed, slowest, p50Ms, p99Ms, maxMs, perSecond } = result;
      const report = [
        ...told,
        `${GUESTS} guests, ${sent} requests at ${perSecond.toFixed(1)}/s: ${served} served, ${retried.length} by a further server, ${failed.length} failed`,
        `p50 ${p50Ms.toFixed(0)} ms, p99 ${p99Ms.toFixed(0)} ms, max ${maxMs.toFixed(0)} ms`,
        ...slowest,
        ...retried.slice(0, 10),
      ].join("\n");
      console.log(`rolling upgrade:\n${report}`);
      const file = process.env["GPVE_UPGRADE_REPORT"];
      if (file !== undefined) writeFileSync(file, `${report}\n${retried.join("\n")}\n${failed.join("\n")}\n`);
      expect(failed).toEqual([]);
      expect(served).toBe(sent);
      expect(perSecond).toBeGreaterThan(PER_SECOND * 0.9);
      expect(await allMarks()).toEqual(before);
      await guests[0]?.counter.goesOn();
      expect(guests[0]?.counter.problem).toBeUndefined();
    },
    ROUNDS * 600_000,
  );
});
