// Steps that come again: of those that had an effect as often as it takes, of others not for ever.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { stepName } from "../../plan/plan-steps.ts";
import type { SecretsBundle } from "../../secrets/bundle.ts";
import { FakeWorld } from "../../testing/fake-world.ts";
import { instantClock } from "../../testing/instant-clock.ts";
import { openedCluster } from "../../testing/opened-cluster.ts";
import { testBundle } from "../../testing/test-bundle.ts";
import { testCluster } from "../../testing/test-cluster.ts";
import type { ApplyOptions } from "../open-cluster.ts";

const clock = instantClock();
let secrets: SecretsBundle;
let world: FakeWorld;
let folder = "";

beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(() => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-tries-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const apply = (talos: string, options: ApplyOptions = {}) => {
  const cluster = testCluster({ controlPlane: { count: 5 }, versions: { talos } });
  return openedCluster(world, { folder, cluster, secrets, clock }).apply(options);
};

test("in a wave that takes its time a snapshot is taken before each control plane", async () => {
  await apply("v1.13.9");
  const { steps, findings } = await apply("v1.13.10", {
    report: ({ event, step }) => {
      if (event === "done" && step.kind === "talos.upgrade") void clock.sleep(20 * 60_000);
    },
  });
  expect(findings).toEqual([]);
  expect(steps.map(stepName).filter((name) => name.startsWith("etcd.snapshot"))).toHaveLength(5);
});

test("a step that does not take effect is not tried for ever", async () => {
  await apply("v1.13.9");
  const { platform } = world;
  const handle = platform.handle.bind(platform);
  platform.handle = (verb, path, values) =>
    verb === "POST" && path.endsWith("/3000/config") ? null : handle(verb, path, values);
  const guest = platform.guests.get(3000);
  if (guest === undefined) throw new Error("no worker");
  guest.config["tags"] = "talos-prod;mine";
  await expect(apply("v1.13.9")).rejects.toMatchObject({
    message: expect.stringContaining("guest.change prod-worker-1 was done 3 times"),
    data: { finding: "step-without-effect" },
  });
});
