// The mark of an operator, while control planes come and go under it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { KeptMark } from "./kept-mark.ts";

const cluster = testCluster();
let world: FakeWorld;
let folder: string;
let now: number;
let held: KeptMark[];
beforeEach(() => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-mark-"));
  now = Date.parse("2026-01-01T00:00:00Z");
  held = [];
});
afterEach(async () => {
  for (const mark of held) await mark.release();
  rmSync(folder, { recursive: true, force: true });
});

async function make(): Promise<void> {
  await openedCluster(world, { folder, cluster, secrets: await testBundle() }).apply();
}

async function take(holder: string, more: { takeOver?: boolean; everyMs?: number } = {}): Promise<KeptMark> {
  const mark = await KeptMark.take({
    cluster,
    machines: machinesOf(cluster),
    drivers: new Map([["pve", world.driver(instantClock())]]),
    holder,
    isGone: () => false,
    now: () => now,
    takeOver: false,
    ...more,
  });
  held.push(mark);
  return mark;
}

const note = (vmid: number): string => world.platform.guests.get(vmid)?.config["description"] ?? "";
const ann = "ann@laptop, process 1";
const bob = "bob@elsewhere, process 2";

test("it is taken once the first control plane runs, and given back", async () => {
  const mark = await take(ann);
  mark.look();
  await make();
  expect(note(2000)).toBe("");
  const one = world.platform.guests.get(2000);
  if (one === undefined) throw new Error("no control plane");
  one.status = "stopped";
  world.platform.guests.delete(2001);
  world.platform.guests.delete(2002);
  mark.look();
  await vi.waitFor(() => expect(world.platform.done.length).toBeGreaterThan(0));
  expect(note(2000)).toBe("");
  one.status = "running";
  mark.look();
  await vi.waitFor(() => expect(note(2000)).toContain(ann), { timeout: 30_000 });
  await mark.release();
  expect(note(2000)).toBe("");
});

test("it moves to another control plane when its own goes, where others find it", async () => {
  await make();
  const mark = await take(ann);
  expect(note(2000)).toContain(ann);
  world.platform.guests.delete(2000);
  now += 120_000;
  mark.look();
  await vi.waitFor(() => expect(note(2001)).toContain(ann), { timeout: 30_000 });
  expect(mark.signal.aborted).toBe(false);
  // The first one is there again, and has no mark.
  await make();
  await expect(take(bob)).rejects.toMatchObject({
    code: "resource.busy",
    data: { finding: "operator-busy" },
  });
  expect(note(2000)).toBe("");
});

test("it is renewed while nothing is reported, and a platform that is away for a moment ends nothing", async () => {
  await make();
  const mark = await take(ann, { everyMs: 5 });
  now += 10 * 60_000;
  await vi.waitFor(() => expect(note(2000)).toContain("00:10:00"), { timeout: 30_000 });
  const handle = vi.spyOn(world.platform, "handle");
  world.platform.unread.set(2000, { status: 500, message: "got no answer" });
  now += 10 * 60_000;
  await vi.waitFor(() => expect(handle.mock.calls.length).toBeGreaterThan(3), { timeout: 30_000 });
  expect(mark.signal.aborted).toBe(false);
  world.platform.unread.clear();
  await vi.waitFor(() => expect(note(2000)).toContain("00:20:00"), { timeout: 30_000 });
});

test("whoever loses it hears so, and takes it from nobody", async () => {
  await make();
  const mark = await take(ann, { takeOver: true });
  await take(bob, { takeOver: true });
  now += 120_000;
  mark.look();
  await vi.waitFor(() => expect(mark.signal.aborted).toBe(true), { timeout: 30_000 });
  expect(mark.signal.reason).toMatchObject({ data: { finding: "operator-busy" } });
  expect(note(2000)).toContain(bob);
  await mark.release();
  expect(note(2000)).toContain(bob);
});
