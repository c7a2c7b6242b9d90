// Clusters of every contract come up, take a change and scale: what is written for each is what its machines take.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { kubernetesRanges } from "../contract/kubernetes-versions.ts";
import { contracts, type ContractName } from "../contract/contracts.ts";
import { stepName } from "../plan/plan-steps.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";

const above = mkdtempSync(join(tmpdir(), "gpve-talos-contracts-"));
let secrets: Awaited<ReturnType<typeof testBundle>>;
beforeAll(async () => {
  secrets = await testBundle();
});
afterAll(() => rmSync(above, { recursive: true, force: true }));

test.each(Object.keys(contracts) as ContractName[])("a cluster of %s", async (name) => {
  const folder = mkdtempSync(join(above, "c-"));
  const world = new FakeWorld(`${name}.2`);
  const versions = { talos: `${name}.2`, kubernetes: kubernetesRanges[name].recommended };
  const apply = async (more: Readonly<Record<string, unknown>>) => {
    const cluster = testCluster({ versions, ...more });
    const { findings, steps } = await openedCluster(world, { folder, secrets, cluster }).apply({});
    expect(findings).toEqual([]);
    return steps.map(stepName);
  };
  const controlPlane = { count: 3 };
  const pool = { name: "worker", count: 1 };
  expect((await apply({ controlPlane, pools: [pool] })).join()).toContain("bootstrap");
  expect(await apply({ controlPlane, pools: [pool] })).toEqual([]);
  const labelled = { ...pool, count: 2, labels: { tier: "web" } };
  expect((await apply({ controlPlane, pools: [labelled] })).join()).toContain("talos.reconfigure");
  expect(await apply({ controlPlane, pools: [labelled] })).toEqual([]);
  const newer = { versions: { ...versions, talos: `${name}.3` }, controlPlane, pools: [labelled] };
  expect((await apply(newer)).filter((step) => step.startsWith("talos.upgrade"))).toHaveLength(5);
  expect(await apply(newer)).toEqual([]);
});

test.each(["v1.13", "v1.14"] as const)(
  "machines of %s install themselves to the disk they are told",
  async (name) => {
    const folder = mkdtempSync(join(above, "c-"));
    const cluster = testCluster({ versions: { talos: `${name}.2` }, image: { boot: "iso" } });
    const { findings } = await openedCluster(new FakeWorld(`${name}.2`), { folder, secrets, cluster }).apply(
      {},
    );
    expect(findings).toEqual([]);
  },
);
