import { describe, expect, test } from "vitest";
import { given } from "@gpve/contracts/given.ts";
import { UTC_OFFSET } from "@gpve/domain/calendar/time-zone.ts";
import type { NextWake } from "@gpve/domain/vcluster/power/next-wake.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { FakeClusterFront } from "../../../testing/fake-cluster-front.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { ClusterPhases } from "../cluster-phases.ts";
import { askNextWake } from "./ask-next-wake.ts";
import { type AskUses, policyOf } from "./ask-uses.ts";
import { ClusterPower } from "./cluster-power.ts";
import { ClusterWays } from "./cluster-ways.ts";
import { powerOperations, SLEEP_CLUSTER, WAKE_CLUSTER } from "./power-operations.ts";

const log = { warn: () => undefined, error: () => undefined } as unknown as Logger;

type Next = Error | { wake: NextWake | undefined };

/** What the cluster says when it is asked what else uses it. */
type Uses = readonly string[] | Error;

async function world(sleep: object = {}, more: Partial<KeptCluster> = {}, next: Next = { wake: undefined }) {
  const asked: { uses: Uses; times: number } = { uses: [], times: 0 };
  const memory = { available: 2 ** 40 };
  const host = new FakeClusterHost();
  const front = new FakeClusterFront();
  const clock = new FakeClock();
  const { engine } = testEngine({ clock });
  const ways = new ClusterWays(host, front);
  const phases = new ClusterPhases(host, () => undefined);
  const uses: AskUses = async (cluster) => {
    if (policyOf(cluster).keepAwake === undefined) return [];
    asked.times++;
    if (asked.uses instanceof Error) throw asked.uses;
    return asked.uses.map((what) => ({ what, at: clock.now() }));
  };
  const { sleep: falls, wake } = powerOperations({
    host,
    phases,
    ways,
    nextWake: () => (next instanceof Error ? Promise.reject(next) : Promise.resolve(next.wake)),
    uses,
    availableMemory: () => memory.available,
  });
  engine.register(falls);
  engine.register(wake);
  await engine.start();
  const power = new ClusterPower({ host, front, ways, engine, clock, log, zone: () => UTC_OFFSET, uses });
  host.save({
    name: "demo",
    tenant: "default",
    spec: readVirtualClusterSpec({ sleep }),
    version: "1.36.4",
    network: 7,
    phase: "Running",
    isWanted: true,
    ...more,
  });
  host.running.add("demo");
  const run = async (mode: "cold" | "warm", idleSince?: number): Promise<string> => {
    const { operation } = await engine.submit({
      type: SLEEP_CLUSTER,
      resources: ["vcluster/demo"],
      args: { name: "demo", mode, ...given({ idleSince }) },
      actor: "root@pam",
    });
    return (await engine.wait(operation.id)).state;
  };
  const settled = (asleep: string | undefined) =>
    expect.poll(() => host.get("demo")?.asleep, { timeout: 5_000 }).toBe(asleep);
  const told = () => power.keptAwake(host.get("demo") as KeptCluster);
  const hold = async (heldUntil: number): Promise<string> => {
    const { operation } = await engine.submit({
      type: WAKE_CLUSTER,
      resources: ["vcluster/demo"],
      args: { name: "demo", heldUntil },
      actor: "root@pam",
    });
    return (await engine.wait(operation.id)).state;
  };
  return { host, front, power, clock, ways, run, settled, memory, asked, told, hold };
}

describe("sleep and wake", () => {
  test.each(["cold", "warm"] as const)("%s: who connects waits, and has it woken once", async (mode) => {
    const { host, front, run, settled, ways } = await world();
    expect(await run(mode)).toBe("done");
    expect(host.get("demo")?.asleep).toBe(mode);
    expect([host.running.has("demo"), host.frozen.has("demo")]).toEqual([mode === "warm", mode === "warm"]);
    expect(host.resting.has("demo")).toBe(mode === "cold");
    expect(front.routes).toMatchObject([{ name: "demo", port: 16_450, mode: "hold" }]);
    for (let knocks = 0; knocks < 1_000; knocks++) front.knock("demo");
    await settled(undefined);
    await expect.poll(() => front.routes[0]?.mode).toBe("open");
    expect([host.running.has("demo"), host.frozen.has("demo")]).toEqual([true, false]);
    expect(ways.lastWake("demo")).toMatchObject({ count: 1, last: { from: mode } });
  });

  test("one that was made asleep is furnished when it is woken for the first time, and never again", async () => {
    const { host, power, run } = await world({}, { asleep: "cold", isNew: true });
    host.running.delete("demo");
    await power.awake("demo");
    expect([host.running.has("demo"), host.furnished]).toEqual([true, ["demo"]]);
    expect(host.get("demo")).not.toHaveProperty("isNew");
    await run("cold");
    await power.awake("demo");
    expect(host.furnished).toEqual(["demo"]);
  });

  test("lets whoever waits in before its controllers run; without them it sleeps on and is tried again", async () => {
    const { host, front, run, power } = await world();
    await run("cold");
    const modes: (string | undefined)[] = [];
    const start = host.start.bind(host);
    host.start = (cluster, signal, say, opened) =>
      start(cluster, signal, say, async () => {
        await opened?.();
        modes.push(front.routes[0]?.mode);
      });
    host.broken.add("controllers");
    await expect(power.awake("demo")).rejects.toThrow();
    expect([modes, host.get("demo")?.asleep, front.routes[0]?.mode]).toEqual([["open"], "cold", "hold"]);
    host.broken.clear();
    await power.awake("demo");
    expect([host.running.has("demo"), front.routes[0]?.mode]).toEqual([true, "open"]);
  });

  test("a warm one that lost a part is started as a cold one is", async () => {
    const { host, power, run } = await world();
    await run("warm");
    host.running.delete("demo");
    await power.awake("demo");
    expect([host.running.has("demo"), host.frozen.has("demo")]).toEqual([true, false]);
  });

  test("one that cannot be woken lets nobody wait for ever", async () => {
    const { host, front, run } = await world();
    await run("cold");
    host.broken.add("start");
    front.knock("demo");
    await expect.poll(() => front.refused).toEqual(["demo"]);
    expect(host.get("demo")?.asleep).toBe("cold");
  });

  test("none is woken beyond what memory there is, those that start counted", async () => {
    const { host, front, power, memory } = await world({}, { asleep: "cold" });
    const demo = host.get("demo");
    if (demo === undefined) throw new Error("it is there");
    const others = ["b", "c", "d"];
    for (const name of others) host.save({ ...demo, name });
    host.running.clear();
    // Room for two, of those that begin at once.
    memory.available = 700 * 2 ** 20;
    const woken = await Promise.allSettled(["demo", ...others].map((name) => power.awake(name)));
    expect(woken.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "rejected"]);
    expect(host.running.size).toBe(2);
    memory.available = 100 * 2 ** 20;
    front.knock("c");
    await expect.poll(() => front.refused).toEqual(["c"]);
    memory.available = 2 ** 30;
    await power.awake("c");
    expect(host.running.has("c")).toBe(true);
  });

  test("by itself when nobody has used it for as long as its policy says", async () => {
    const { host, front, power, clock, settled } = await world({ mode: "warm", afterIdleSeconds: 60 });
    power.start();
    await clock.advance(30_000);
    front.seen.set("demo", { lastAt: clock.now(), connections: 1, held: 0 });
    await clock.advance(45_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    await clock.advance(20_000);
    await settled("warm");
    power.close();
  });

  test("not when somebody used it while it was about to", async () => {
    const { host, front, run } = await world();
    front.seen.set("demo", { lastAt: 500, connections: 1, held: 0 });
    expect(await run("cold", 400)).toBe("done");
    expect(host.get("demo")?.asleep).toBeUndefined();
    expect(front.modes).toEqual(["hold", "open"]);
  });

  test("wakes by itself in time for its next job, and stays awake until that was begun", async () => {
    const due = new FakeClock().now() + 600_000;
    const next: { wake: NextWake | undefined } = { wake: { at: due, why: "CronJob default/night" } };
    const { host, power, clock, run, settled } = await world({ mode: "cold", afterIdleSeconds: 5 }, {}, next);
    expect(await run("cold")).toBe("done");
    expect(host.get("demo")).toMatchObject({ asleep: "cold", wakeAt: due });
    power.start();
    await clock.advance(590_000);
    expect(host.get("demo")?.asleep).toBe("cold");
    await clock.advance(6_000);
    await settled(undefined);
    expect(host.get("demo")).not.toHaveProperty("wakeAt");
    next.wake = undefined;
    await clock.advance(50_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    await clock.advance(20_000);
    await settled("cold");
    power.close();
  });

  test("one that cannot be woken for its job is tried again later, not every second", async () => {
    const { host, power, clock, run } = await world(
      {},
      {},
      { wake: { at: new FakeClock().now() + 10_000, why: "a job" } },
    );
    await run("cold");
    host.broken.add("start");
    power.start();
    await clock.advance(30_000);
    expect(host.get("demo")?.asleep).toBe("cold");
    host.broken.clear();
    await clock.advance(20_000);
    expect(host.get("demo")?.asleep).toBe("cold");
    await clock.advance(30_000);
    await expect.poll(() => host.get("demo")?.asleep).toBeUndefined();
    power.close();
  });

  test("sleeps all the same where its jobs cannot be read", async () => {
    const { host, run } = await world({}, {}, new Error("no answer"));
    expect(await run("cold")).toBe("done");
    expect(host.get("demo")).toMatchObject({ asleep: "cold" });
    expect(host.get("demo")).not.toHaveProperty("wakeAt");
  });

  test("asks the cluster itself for its jobs", async () => {
    const { host } = await world({ wakeAt: "07:00" });
    const clock = new FakeClock();
    const answers = [
      { status: 200, body: { items: [] } },
      { status: 403, body: {} },
    ];
    const ask = askNextWake({
      api: () => Promise.resolve(answers.shift() ?? { status: 0, body: {} }),
      clock,
      zone: () => UTC_OFFSET,
    });
    const cluster = host.get("demo") as KeptCluster;
    const found = await ask(cluster, AbortSignal.abort());
    expect([found?.why, new Date(found?.at ?? 0).getUTCHours()]).toEqual(["its schedule '07:00'", 7]);
    await expect(ask(cluster, AbortSignal.abort())).rejects.toThrow("answered 403");
  });

  test("goes to sleep when its policy says so, whoever uses it, once", async () => {
    const { host, front, power, clock, settled } = await world({ mode: "warm", sleepAt: "*:0/10" });
    power.start();
    await clock.advance(600_000 - (clock.now() % 600_000) - 2_000);
    front.seen.set("demo", { lastAt: clock.now(), connections: 1, held: 0 });
    expect(host.get("demo")?.asleep).toBeUndefined();
    await clock.advance(3_000);
    await settled("warm");
    await power.awake("demo");
    front.seen.set("demo", { lastAt: clock.now(), connections: 1, held: 0 });
    await clock.advance(10_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    power.close();
  });

  test("not while something keeps it awake that its policy names, asked for when nobody is connected", async () => {
    const policy = { mode: "warm", afterIdleSeconds: 60, keepAwake: ["jobs"] };
    const { host, front, power, clock, settled, asked, told } = await world(policy);
    asked.uses = ["Job default/pi"];
    power.start();
    await clock.advance(30_000);
    front.seen.set("demo", { lastAt: clock.now(), connections: 1, held: 0 });
    expect(told()).toEqual({ reason: "Connections", message: "tenants are connected" });
    await clock.advance(55_000);
    expect(asked.times).toBe(0);
    await clock.advance(300_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    expect(told()).toEqual({ reason: "InUse", message: "Job default/pi" });
    expect(asked.times).toBeGreaterThan(5);
    expect(asked.times).toBeLessThan(15);
    asked.uses = [];
    await clock.advance(25_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    await clock.advance(70_000);
    await settled("warm");
    expect(told()).toBeUndefined();
    power.close();
  });

  test("not while that cannot be found out, nor where it began since", async () => {
    const policy = { mode: "warm", afterIdleSeconds: 60, keepAwake: ["sessions"] };
    const { host, power, clock, run, asked, told } = await world(policy);
    asked.uses = new Error("no answer");
    power.start();
    await clock.advance(200_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    expect(told()?.message).toBe("what else uses it cannot be found out: no answer");
    power.close();
    expect(await run("warm", 0)).toBe("done");
    asked.uses = ["open sessions (1 exec)"];
    expect(await run("warm", 0)).toBe("done");
    expect(host.get("demo")?.asleep).toBeUndefined();
    // Who says so himself is not asked why.
    expect(await run("warm")).toBe("done");
    expect(host.get("demo")?.asleep).toBe("warm");
  });

  test("not while it is held, whatever its calendar says; who puts it to sleep ends that", async () => {
    const { host, power, clock, hold, settled, told, run } = await world({
      mode: "warm",
      afterIdleSeconds: 5,
      sleepAt: "*:0/10",
    });
    await run("cold");
    const until = clock.now() + 3_600_000;
    expect(await hold(until)).toBe("done");
    power.start();
    await clock.advance(3_500_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    expect(told()).toEqual({
      reason: "Held",
      message: `it is held awake until ${new Date(until).toISOString()}`,
    });
    expect(await run("warm", 0)).toBe("done");
    expect(host.get("demo")?.asleep).toBeUndefined();
    await clock.advance(105_000);
    await settled("warm");
    expect(await hold(clock.now() + 60_000)).toBe("done");
    expect(await run("warm")).toBe("done");
    expect(host.get("demo")).not.toHaveProperty("heldUntil");
    power.close();
  });

  test("never by itself where the policy is none, or it is stopped", async () => {
    const { host, power, clock } = await world({ mode: "none" });
    power.start();
    await clock.advance(3_600_000);
    expect(host.get("demo")?.asleep).toBeUndefined();
    power.close();
    const stopped = await world({}, { phase: "Stopped", isWanted: false });
    expect(await stopped.run("cold")).toBe("failed");
    await stopped.ways.tell();
    expect(stopped.front.routes[0]?.mode).toBe("closed");
  });
});
