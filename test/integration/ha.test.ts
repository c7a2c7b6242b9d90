// A guest under HA, real processes, real faults: it runs again on another node, and never on two. GPVE_SEED chooses other
// sequences of faults; GPVE_HA_SEQUENCES how many.
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { generator } from "@gpve/domain/ha/testing/random-faults.ts";
import { networkProblem } from "@gpve/kit/testing/cluster/test-network.ts";
import { afterAll, beforeAll, describe, expect, onTestFailed, test, vi } from "vitest";
import { DiskWitness, HaLab, HA_VMID, type Loss } from "../support/ha-lab.ts";
import { newLab, tracesOf, type TestLab } from "../support/lab.ts";

const problem =
  (await networkProblem()) ??
  (existsSync("/usr/bin/etcd") ? undefined : "etcd is missing: apt-get install etcd-server");
if (problem !== undefined) console.warn(`SKIPPED high availability on real processes: ${problem}`);

const SEED = Number(process.env["GPVE_SEED"] ?? 146);
const SEQUENCES = Number(process.env["GPVE_HA_SEQUENCES"] ?? 3);

describe.skipIf(problem !== undefined)("a guest under HA on three nodes", () => {
  let lab: TestLab;
  let ha: HaLab;
  let witness: DiskWitness;
  const losses: Loss[] = [];
  const unmoved: string[] = [];

  /** Each is done to the node that has the guest. */
  const faults: Readonly<Record<string, (node: string) => Promise<void>>> = {
    kill: async (node) => void (await lab.fault("kill", node)),
    cut: async (node) => void (await lab.fault("cut", node)),
    freeze: async (node) => void (await lab.fault("freeze", node)),
    "agent and fence process": async (node) => {
      ha.kill(node, "lab-agent.json");
      ha.kill(node, "fence.lock");
    },
  };
  /** Call it first: what was decided since, for whoever reads of a failure. */
  const tellOnFailure = async (): Promise<readonly string[]> => {
    const before = await ha.tasks();
    onTestFailed(async () => console.error(await ha.account(before)));
    return before;
  };
  /** Longer than a deadline and a lease: nothing becomes of the guest, and nobody who uses it notices. */
  const staysAsItIs = async (fault: string, node: string): Promise<void> => {
    const pid = ha.pid(node, `guests/${HA_VMID}/state`);
    const begun = performance.now();
    let silentMs = 0;
    let lastAnswer = begun;
    while (performance.now() - begun < 14_000) {
      expect(ha.pid(node, `guests/${HA_VMID}/state`)).toBe(pid);
      if (await ha.answers()) lastAnswer = performance.now();
      silentMs = Math.max(silentMs, performance.now() - lastAnswer);
      await new Promise((done) => setTimeout(done, 250));
    }
    // One question can go unanswered on a busy machine; the program that runs says that nobody touched it.
    expect(await vi.waitUntil(() => ha.answers(), { timeout: 150_000 }).catch(() => false)).toBe(true);
    expect(await ha.place()).toBe(node);
    unmoved.push(
      `${fault.padEnd(24)} ${node}        nothing moved, silent for ${(silentMs / 1000).toFixed(1)} s at most`,
    );
  };
  const strike = async (fault: string): Promise<void> => {
    const node = await ha.place();
    const run = faults[fault];
    if (run === undefined) throw new Error(`no fault ${fault}`);
    const loss = await ha.lose(fault, node, () => run(node));
    losses.push(loss);
    expect(loss.now).not.toBe(node);
    // Whatever it was asleep over, it must not go on where it was.
    if (fault === "freeze") await lab.fault("thaw", node);
    await ha.heal(node);
    // A server that was cut off may be asked first, which for a moment has nobody to confirm what it knew before.
    await expect.poll(() => ha.place(), { timeout: 60_000 }).toBe(loss.now);
    await ha.untilSettled();
  };

  beforeAll(async () => {
    lab = newLab();
    ha = new HaLab(lab);
    witness = new DiskWitness(join(lab.data, "shared/images", String(HA_VMID)));
    await lab.gpve("up", "--nodes", "3", "--detach", "--listen", "127.0.0.1:0");
    await ha.makeGuest("n2");
  });

  afterAll(async () => {
    witness?.close();
    const table = losses.map(
      ({ fault, node, now, silentS, startedS, answersS }) =>
        `${fault.padEnd(24)} ${node} -> ${now}  silent after ${silentS.toFixed(1)} s, started ${startedS.toFixed(1)} s, answers ${answersS.toFixed(1)} s`,
    );
    const text = [...unmoved, ...table].join("\n");
    console.log(`HA, seed ${SEED}:\n${text}\nmost writers at once: ${witness?.most}`);
    const file = process.env["GPVE_HA_REPORT"];
    if (file !== undefined) writeFileSync(file, `${text}\n`, { flag: "a" });
    await lab?.remove();
  });

  test("an agent or a fence process that dies alone moves nothing", async () => {
    await tellOnFailure();
    const node = await ha.place();
    const pid = ha.pid(node, `guests/${HA_VMID}/state`);
    const fence = ha.pid(node, "fence.lock");
    ha.kill(node, "lab-agent.json");
    await staysAsItIs("agent alone", node);
    await ha.heal(node);
    ha.kill(node, "fence.lock");
    await vi.waitFor(() => expect(ha.pid(node, "fence.lock")).not.toBe(fence), { timeout: 150_000 });
    expect(ha.pid(node, `guests/${HA_VMID}/state`)).toBe(pid);
  });

  test("a guest whose process is killed is started again where it was", async () => {
    await tellOnFailure();
    const node = await ha.place();
    const loss = await ha.lose("its QEMU", node, async () => ha.kill(node, `guests/${HA_VMID}/state`));
    losses.push(loss);
    expect(loss.now).toBe(node);
  });

  test("a member of etcd that is cut off costs its node nothing: others' servers renew", async () => {
    await tellOnFailure();
    const node = await ha.place();
    const mend = await ha.cutEtcd(node);
    try {
      await staysAsItIs("etcd in two", node);
    } finally {
      await mend();
    }
  });

  test("maintenance: the guest leaves its node as it runs, and comes back afterwards", async () => {
    await ha.untilSettled();
    const node = await ha.place();
    const isStartedOn = async (): Promise<string> => {
      const row = (await ha.status()).find(({ type }) => type === "service");
      return row?.state === "started" ? row.node : `${row?.state} on ${row?.node}`;
    };
    const before = await tellOnFailure();
    await lab.gpve("ctl", "ha", "maintenance", "on", node);
    await vi.waitFor(
      async () => {
        const others = ["n1", "n2", "n3"].filter((each) => each !== node);
        expect(others).toContain(await isStartedOn());
        expect(await ha.answers()).toBe(true);
      },
      { timeout: 240_000, interval: 500 },
    );
    await lab.gpve("ctl", "ha", "maintenance", "off", node);
    await vi.waitFor(
      async () => {
        expect(await isStartedOn()).toBe(node);
        expect(await ha.answers()).toBe(true);
      },
      { timeout: 240_000, interval: 500 },
    );
    // As it ran, both ways: nobody started it anew.
    const tasks = (await ha.tasks()).filter((task) => !before.includes(task));
    expect(tasks.filter((task) => task.startsWith("qmigrate OK"))).toHaveLength(2);
    expect(tasks.filter((task) => task.startsWith("qmstart"))).toEqual([]);
    expect(witness.most).toBe(1);
  }, 600_000);

  test(
    "random faults: the guest runs again elsewhere, and is never written by two",
    async () => {
      const random = generator(SEED);
      const names = Object.keys(faults);
      for (let sequence = 0; sequence < SEQUENCES; sequence++) {
        const length = 1 + Math.floor(random() * 2);
        for (let at = 0; at < length; at++)
          await strike(names[Math.floor(random() * names.length)] ?? "kill");
      }
      expect(witness.looks).toBeGreaterThan(100);
      expect(witness.most).toBe(1);
      for (const { fault, startedS } of losses)
        if (fault !== "its QEMU") expect(startedS, fault).toBeGreaterThan(8);
    },
    SEQUENCES * 300_000,
  );

  test.skipIf(SEQUENCES <= 3)(
    "a network that comes and goes: the guest answers again when it holds, and is never written by two",
    async () => {
      await ha.untilSettled();
      await tellOnFailure();
      const node = await ha.place();
      // Shorter than a deadline, about as long, and longer than a lease.
      for (const silentMs of [2_000, 6_000, 9_000, 15_000, 4_000]) {
        await lab.fault("cut", node);
        await new Promise((done) => setTimeout(done, silentMs));
        await lab.fault("heal", node);
        await new Promise((done) => setTimeout(done, 3_000));
      }
      await ha.heal(node);
      await ha.untilSettled();
      await vi.waitFor(async () => expect(await ha.answers()).toBe(true), { timeout: 150_000 });
      expect(witness.most).toBe(1);
    },
    600_000,
  );

  test("what was decided can be read with its reasons, and down --guests leaves nothing", async () => {
    const answer = await lab.api()("GET", "/cluster/ha/status/manager_status");
    expect(answer.data).toMatchObject({ manager_status: { service_status: { [`vm:${HA_VMID}`]: {} } } });
    witness.close();
    const before = performance.now();
    await lab.gpve("down", "--guests");
    expect((performance.now() - before) / 1000).toBeLessThan(120);
    expect(await tracesOf(lab.data)).toEqual([]);
    expect(existsSync(join(lab.data, "shared/images", String(HA_VMID)))).toBe(true);
    expect(readFileSync(join(lab.data, "lab.json"), "utf8")).toContain("nodes");
  });
});
