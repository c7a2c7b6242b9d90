// Machines that go away for a while, and come back.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";

let secrets: SecretsBundle;
let world: FakeWorld;
let folder = "";

beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(async () => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-shut-"));
  await apply();
  world.platform.done.length = 0;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const apply = (more: Readonly<Record<string, unknown>> = {}) =>
  openedCluster(world, { folder, cluster: testCluster(more), secrets }).apply();
const plugs = () => world.platform.done.filter((line) => line.endsWith("/status/stop"));
const larger = { pools: [{ name: "worker", count: 2, machine: { cores: 6 } }] };

test("whoever comes back shuts down by itself; who goes for good is stopped", async () => {
  const machine = world.machine("prod-worker-1");
  await apply(larger);
  expect(machine.shutdowns).toBe(1);
  expect(plugs()).toEqual([]);
  expect(world.platform.guests.get(3000)).toMatchObject({ status: "running", config: { cores: "6" } });
  await apply({ pools: [{ ...larger.pools[0], count: 1 }] });
  expect(plugs()).toEqual(["POST /nodes/pve2/qemu/3001/status/stop"]);
});

test("one that does not come to its end, or does not listen, is stopped", async () => {
  world.machine("prod-worker-1").neverEnds = true;
  world.machine("prod-worker-2").refusesShutdown = true;
  await apply(larger);
  expect(plugs()).toEqual([
    "POST /nodes/pve1/qemu/3000/status/stop",
    "POST /nodes/pve2/qemu/3001/status/stop",
  ]);
  expect(world.platform.guests.get(3001)).toMatchObject({ status: "running", config: { cores: "6" } });
});
