// A platform that does not answer for a moment while a cluster is made.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { expect, test } from "vitest";
import type { Driver } from "../driver/driver.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";

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
  const drivers = new Map([["pve", away]]);
  const open = openedCluster(world, { folder, cluster, secrets, clock, drivers });
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
