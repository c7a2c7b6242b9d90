// Servers and agents are restarted one by one under a steady load with guests running, as docs/how-to/rolling-upgrade.md
// says; lab.test.ts has one round with three guests. GPVE_UPGRADE_GUESTS: how many guests; GPVE_UPGRADE_ROUNDS: how often
// round; GPVE_UPGRADE_HA=1: one of the guests is under HA, whose node a machine that is too busy fences.
import { existsSync, writeFileSync } from "node:fs";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newLab, type TestLab } from "../support/lab.ts";
import { MovingGuest } from "../support/moving-guest.ts";
import { marksOf, upgradeUnderLoad } from "../support/rolling-upgrade.ts";

const problem =
  (process.env["GPVE_UPGRADE_GUESTS"] === undefined
    ? "it belongs to the long run: GPVE_UPGRADE_GUESTS=20 runs it, lab.test.ts has a short one"
    : undefined) ??
  (await networkProblem()) ??
  (existsSync("/usr/bin/etcd") ? undefined : "etcd is missing: apt-get install etcd-server");
if (problem !== undefined) console.warn(`SKIPPED a rolling upgrade with many guests: ${problem}`);

const GUESTS = Number(process.env["GPVE_UPGRADE_GUESTS"] ?? 3);
const ROUNDS = Number(process.env["GPVE_UPGRADE_ROUNDS"] ?? 1);
const UNDER_HA = process.env["GPVE_UPGRADE_HA"] === "1";
const PER_SECOND = 50;
const FIRST_VMID = 300;

describe.skipIf(problem !== undefined)("a cluster that is upgraded while it works", () => {
  let lab: TestLab;
  const guests: MovingGuest[] = [];
  const nodes = ["n1", "n2", "n3"] as const;

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
      const before = await marksOf(lab, guests);
      const { report, sent, served, retried, failed, perSecond } = await upgradeUnderLoad(lab, guests, {
        rounds: ROUNDS,
        perSecond: PER_SECOND,
      });
      console.log(`rolling upgrade:\n${report}`);
      const file = process.env["GPVE_UPGRADE_REPORT"];
      if (file !== undefined) writeFileSync(file, `${report}\n${retried.join("\n")}\n${failed.join("\n")}\n`);
      expect(failed).toEqual([]);
      expect(served).toBe(sent);
      expect(perSecond).toBeGreaterThan(PER_SECOND * 0.9);
      expect(await marksOf(lab, guests)).toEqual(before);
      await guests[0]?.counter.goesOn();
      expect(guests[0]?.counter.problem).toBeUndefined();
    },
    ROUNDS * 600_000,
  );
});
