// A snapshot is brought back beside the cluster that it is of, which must not notice.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { clusterFolderOf } from "../folder/cluster-folder.ts";
import { RestKubernetes } from "../kubernetes/rest-kubernetes.ts";
import type { Kubernetes } from "../kubernetes/kubernetes.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeKubernetes } from "../testing/fake-kubernetes.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { minimalFile } from "../testing/test-cluster.ts";
import { drillFile, drillMachine, type DrillRequest, runDrill } from "./drill.ts";
import { OpenCluster } from "./open-cluster.ts";

const clock = instantClock();
let secrets: SecretsBundle;
let world: FakeWorld;
let folder = "";
let snapshot: Buffer;
/** What the scratch machine's Kubernetes has from the snapshot. */
let restored: FakeKubernetes;

beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(async () => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-drill-"));
  const cluster = open(minimalFile, world.kubernetes);
  await cluster.apply();
  await cluster.snapshot();
  restored = new FakeKubernetes({ kubelets, isUp: () => scratchEtcd()?.hasQuorum === true });
  restored.nodes.set("prod-cp-1", { isReady: false, isCordoned: false, annotations: {}, version: "1.36.3" });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const file = drillFile(minimalFile, { address: "10.0.0.250", vmid: 2999, bridge: "vmbr9" });
const scratchEtcd = () =>
  world.clusters.all.find(({ members }) => members[0]?.hostname === "prod-drill-cp-1");
const kubelets = () =>
  [...world.machines.values()]
    .filter(({ hostname }) => hostname === "prod-drill-cp-1")
    .map(({ hostname, isOn }) => ({ hostname, isOn, version: "1.36.3" }));

function open(text: string, kubernetes: Kubernetes, written = Number.POSITIVE_INFINITY): OpenCluster {
  let left = written;
  return new OpenCluster({
    place: clusterFolderOf("cluster.yaml", text, { env: {}, homeDir: folder, cwd: folder, now: 0 }),
    secrets,
    secretsFile: join(folder, "secrets"),
    drivers: new Map([["pve", world.driver(clock)]]),
    talos: world.talos,
    kubernetes,
    clock,
    journal: {
      append: () => {
        left -= 1;
        if (left < 0) throw new Error("killed");
      },
      lines: () => [],
    },
    prepareImage: async (url) => url,
    keepSnapshot: async (bytes) => {
      snapshot = bytes;
      return { at: clock.now(), file: "etcd.snapshot", sha256: "0" };
    },
  });
}

const drill = (more: Partial<Pick<DrillRequest, "keeps" | "nodes" | "images">> = {}, written?: number) => {
  const kubernetes = new RestKubernetes(restored.send);
  return runDrill({
    scratch: open(file, kubernetes, written),
    kubernetes,
    machine: drillMachine("prod"),
    snapshot,
    nodes: ["prod-cp-1", "prod-cp-2"],
    now: () => clock.now(),
    keeps: false,
    ...more,
  });
};

test("the scratch machine's image is the one that the cluster's own were held to", async () => {
  const images = { "talos.qcow2": "1".repeat(64) };
  await drill({ keeps: true, images });
  expect(open(file, new RestKubernetes(restored.send)).lock.images).toEqual(images);
});

test("etcd begins from the snapshot in a machine of its own, which is gone after", async () => {
  const before = world.summary();
  expect(await drill({ keeps: true })).toMatchObject({ kubernetes: "1.36.3", knownNodes: ["prod-cp-1"] });
  expect(scratchEtcd()?.members.map(({ hostname }) => hostname)).toEqual(["prod-drill-cp-1"]);
  expect(world.platform.guests.get(2999)?.config).toMatchObject({
    name: "prod-drill-cp-1",
    net0: expect.stringContaining("bridge=vmbr9"),
    tags: expect.stringContaining("talos-prod-drill"),
  });
  await drill();
  expect(world.summary()).toEqual({ ...(before as object), members: expect.any(Array), objects: [] });
  expect(world.clusters.all[0]?.members).toHaveLength(3);
});

test("it does not look for the cluster that it shares secrets with", async () => {
  await drill({ keeps: true });
  expect(world.clusters.all[0]?.members.map(({ hostname }) => hostname)).toEqual([
    "prod-cp-1",
    "prod-cp-2",
    "prod-cp-3",
  ]);
  const text = world.machine("prod-drill-cp-1").config?.text ?? "";
  expect(text).toContain("endpoint: https://10.0.0.250:6443");
  expect(text).not.toContain("10.0.0.9");
});

test("stopped after any line of its journal, the next one goes on", async () => {
  const all = Array.from({ length: 24 }, (_none, at) => at);
  for (const written of process.env["GPVE_TALOS_KILLS"] === "all" ? all : [1, 4, 7, 9, 11, 14, 17, 20]) {
    await drill({}, written).catch((err: unknown) => expect(String(err)).toContain("killed"));
    expect(await drill()).toMatchObject({ knownNodes: ["prod-cp-1"] });
    expect(world.platform.guests.has(2999)).toBe(false);
  }
  expect(world.quorumLosses).toBe(0);
});

test("another cluster's snapshot and a damaged one are told, the scratch machine stays", async () => {
  await expect(drill({ nodes: ["other-cp-1"] })).rejects.toMatchObject({ data: { finding: "drill-failed" } });
  expect(world.platform.guests.has(2999)).toBe(true);
  snapshot = Buffer.concat([snapshot, Buffer.from("x")]);
  // Another one than what the scratch machine was made for: it begins anew.
  await expect(drill()).rejects.toThrow("hash mismatch");
  expect(world.clusters.all[0]?.bootstraps).toBe(1);
});
