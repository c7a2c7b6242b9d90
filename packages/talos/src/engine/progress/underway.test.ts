// A platform goes on with what it was asked for, also when who asked was killed: the next apply meets it half done.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { interrupted, type JournalLine } from "../../folder/journal.ts";
import { stepName } from "../../plan/plan-steps.ts";
import { FakeWorld } from "../../testing/fake-world.ts";
import { instantClock } from "../../testing/instant-clock.ts";
import { openedCluster } from "../../testing/opened-cluster.ts";
import { testBundle } from "../../testing/test-bundle.ts";
import { testCluster } from "../../testing/test-cluster.ts";

let world: FakeWorld;
let folder: string;
beforeEach(() => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-underway-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const at = "2026-01-02T03:04:05.000Z";
const line = (event: "begin" | "done" | "failed", step: string): JournalLine => ({
  at,
  run: "killed",
  event,
  step,
});

async function apply(lines: readonly JournalLine[]) {
  const secrets = await testBundle();
  const written = [...lines];
  const journal = { append: (each: JournalLine) => void written.push(each), lines: () => written };
  const cluster = testCluster({ controlPlane: { count: 1 }, pools: [] });
  return openedCluster(world, { folder, cluster, secrets, journal, clock: instantClock() }).apply({
    only: "infrastructure",
  });
}

test("steps of which nobody wrote the end were interrupted", () => {
  const lines = [
    line("begin", "a"),
    line("begin", "b"),
    line("done", "a"),
    line("begin", "c"),
    line("failed", "c"),
    line("begin", "d"),
    line("done", "d"),
    line("begin", "d"),
  ];
  expect([...interrupted(lines)]).toEqual(["b", "d"]);
  expect([...interrupted([...lines, { at, run: "next", event: "end" }, line("begin", "e")])]).toEqual(["e"]);
});

/** As after its creation, which is all that was done. */
const stop = (): void => {
  const guest = world.platform.guests.get(2000);
  if (guest !== undefined) guest.status = "stopped";
};

test("a guest that is made, and not listed yet, is waited for and not made twice", async () => {
  await apply([]);
  stop();
  const made = world.platform.done.filter((each) => /^POST .*\/qemu$/.test(each)).length;
  world.platform.unlisted.set(2000, 5);
  const { steps, findings } = await apply([line("begin", "guest.create prod-cp-1")]);
  expect(findings).toEqual([]);
  expect(steps.map(stepName)).toContain("guest.create prod-cp-1");
  // It was asked for, refused, and found to be there.
  expect(world.platform.done.filter((each) => /^POST .*\/qemu$/.test(each))).toHaveLength(made + 1);
  expect(world.platform.guests.size).toBe(1);
});

test("what was refused without anybody at work on it fails as it did", async () => {
  await apply([]);
  world.platform.unlisted.set(2000, 1_000_000);
  await expect(apply([])).rejects.toThrow("already exists");
  await expect(
    apply([line("begin", "guest.create prod-cp-1"), line("failed", "guest.create prod-cp-1")]),
  ).rejects.toThrow("already exists");
  // And in the end also where somebody was.
  await expect(apply([line("begin", "guest.create prod-cp-1")])).rejects.toThrow("already exists");
});
