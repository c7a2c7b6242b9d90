// A platform that does not answer for a moment while a cluster is made.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import type { Driver } from "../driver/driver.ts";
import { readLock } from "../folder/lock-file.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { OpenCluster } from "./open-cluster.ts";

const secrets = await testBundle();

/** `isAway`: by how often it was looked at. */
async function applied(isAway: (look: number) => boolean) {
  const world = new FakeWorld();
  const clock = instantClock();
  const folder = mkdtempSync(join(tmpdir(), "gpve-talos-away-"));
  const driver = world.driver(clock);
  let looks = 0;
  const away: Driver = Object.assign(Object.create(driver) as Driver, {
    observe: async (nodes: readonly string[]) => {
      looks += 1;
      if (isAway(looks)) throw new AppError("node.unavailable", "PING timed out");
      return driver.observe(nodes);
    },
    ...Object.fromEntries(
      Object.getOwnPropertyNames(Object.getPrototypeOf(driver))
        .filter((name) => !["constructor", "observe"].includes(name))
        .map((name) => [name, (driver[name as keyof Driver] as () => unknown).bind(driver)]),
    ),
  });
  const cluster = testCluster({ controlPlane: { count: 1 }, endpoint: {}, pools: [] });
  const open = new OpenCluster({
    place: {
      file: "cluster.yaml",
      folder,
      text: "",
      cluster,
      lock: readLock(folder, "prod"),
      machines: machinesOf(cluster),
      patches: new Map(),
    },
    secrets,
    secretsFile: join(folder, "secrets"),
    drivers: new Map([["pve", away]]),
    talos: world.talos,
    kubernetes: world.kubernetes,
    clock,
    journal: { append: () => undefined, lines: () => [] },
    prepareImage: async (url) => url,
    keepSnapshot: async () => ({ at: clock.now(), file: "etcd.snapshot", sha256: "0" }),
  });
  try {
    return { ...(await open.apply()), looks };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

test("one that is away now and then is asked again, and the apply ends as if nothing had been", async () => {
  const { findings, looks } = await applied((look) => look > 1 && look % 2 === 0);
  expect(findings).toEqual([]);
  expect(looks).toBeGreaterThan(4);
});

test("one that never answers is told at once; one that stays away is told in the end", async () => {
  await expect(applied(() => true)).rejects.toThrow("PING timed out");
  await expect(applied((look) => look > 2)).rejects.toThrow("PING timed out");
});
