// Two clusters beside each other in one world; the load balancer of the first is turned to the second and back.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { readLock } from "../folder/lock-file.ts";
import { renderFiles } from "../render/render-files.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { clusterStatus } from "../status/cluster-status.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { OpenCluster } from "./open-cluster.ts";
import { switchedFront } from "./switch-front.ts";

const clock = instantClock();
let folder: string;
let world: FakeWorld;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-front-"));
  world = new FakeWorld();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const network = { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1" };
const front = "10.0.0.5";
const blue = testCluster({
  metadata: { name: "blue" },
  endpoint: { loadBalancer: { address: front, backendsManaged: "haproxy" } },
});
const green = (extraSANs: readonly string[] = [front]) =>
  testCluster({
    metadata: { name: "green" },
    network: { ...network, ipam: { controlPlaneOffset: 60, workerOffset: 70 } },
    vmids: { controlPlane: "2500-2599", worker: "3500-3599", template: "9100-9199" },
    endpoint: { vip: "10.0.0.59", extraSANs },
  });

function open(cluster: typeof blue, secrets: SecretsBundle) {
  const { name } = cluster.metadata;
  const lock = readLock(folder, name);
  const machines = machinesOf(cluster, lock.machines);
  const place = { file: `${name}.yaml`, folder, text: "", cluster, lock, machines, patches: new Map() };
  const opened = new OpenCluster({
    place,
    secrets,
    secretsFile: join(folder, `${name}.enc.yaml`),
    drivers: new Map([["pve", world.driver(clock)]]),
    talos: world.talosOf(() => secrets),
    kubernetes: world.kubernetes,
    clock,
    journal: { append: () => undefined, lines: () => [] },
    prepareImage: async (url) => url,
    keepSnapshot: () => Promise.reject(new Error("nothing is kept")),
  });
  const checks = async () =>
    clusterStatus(opened.desired(), await opened.observe(), opened.lock, secrets).checks;
  return { place, opened, checks };
}

test("the front is turned to a second cluster that is well, and back; the first is not touched", async () => {
  const secrets = await testBundle();
  const first = open(blue, secrets);
  const second = open(green(), { ...secrets, cluster: { ...secrets.cluster, id: "Z3JlZW4=" } });
  expect((await first.opened.apply()).findings).toEqual([]);
  const before = switchedFront({ front: first.place, target: first.place, checks: await first.checks() });
  expect(before).toContain("bind 10.0.0.5:6443");
  expect(before).toContain("server blue-cp-1 10.0.0.10:6443");

  // Half made it is refused.
  await second.opened.apply({ only: "infrastructure" });
  const early = async () =>
    switchedFront({ front: first.place, target: second.place, checks: await second.checks() });
  await expect(early()).rejects.toMatchObject({ data: { finding: "front-unready" } });
  expect((await second.opened.apply()).findings).toEqual([]);
  expect(world.clusters.all.map(({ bootstraps }) => bootstraps)).toEqual([1, 1]);

  const calls = world.platform.done.length;
  const after = await early();
  expect(after).toContain("default_backend green");
  expect([...after.matchAll(/^ +server (\S+) (\S+)/gm)].map(([, name, at]) => `${name} ${at}`)).toEqual([
    "green-cp-1 10.0.0.60:6443",
    "green-cp-2 10.0.0.61:6443",
    "green-cp-3 10.0.0.62:6443",
  ]);
  expect(switchedFront({ front: first.place, target: first.place, checks: await first.checks() })).toBe(
    before,
  );
  expect(world.platform.done).toHaveLength(calls);
  expect(world.quorumLosses).toBe(0);

  // Told to go, only the old one goes.
  await first.opened.destroy();
  expect((await second.checks()).every(({ isFine }) => isFine)).toBe(true);
  expect(
    [...world.platform.guests.values()].every(({ config }) => config["name"]?.startsWith("green-")),
  ).toBe(true);
});

test("a second file with the first one's secrets is secrets-shared: its machines would join the first", async () => {
  const secrets = await testBundle();
  await open(blue, secrets).opened.apply();
  const calls = world.platform.done.length;
  await expect(open(green(), secrets).opened.apply()).rejects.toMatchObject({
    data: { finding: "secrets-shared" },
  });
  expect(world.platform.done).toHaveLength(calls);
  expect((await open(blue, secrets).opened.apply()).steps).toEqual([]);
});

test("a cluster whose API does not answer to the front's name, and a front that is not ours, are refused", async () => {
  const place = (cluster: typeof blue) => ({ cluster, machines: machinesOf(cluster) });
  const to = (target: typeof blue, of = blue) =>
    switchedFront({ front: place(of), target: place(target), checks: [] });
  expect(() => to(green([]))).toThrow("has no certificate for 10.0.0.5; it has 10.0.0.59");
  expect(() => to(green(), green())).toThrow("green has no load balancer of ours before it");
});

test("render writes the load balancer's configuration, by name on every address", async () => {
  const cluster = testCluster({
    endpoint: { loadBalancer: { address: "api.example.org", backendsManaged: "haproxy" }, port: 443 },
  });
  const request = { cluster, machines: machinesOf(cluster), patches: new Map(), now: Date.now() };
  const files = await renderFiles({ ...request, secrets: await testBundle(Date.now()) });
  const text = files.find(({ path }) => path === "haproxy.cfg")?.text;
  expect(text).toContain("bind :::443 v4v6");
  expect(text).toContain("server prod-cp-3 10.0.0.12:6443");
  // API servers up to Talos v1.13 answer strangers with 401: they run.
  expect(text).toContain("http-check expect rstatus ^(200|401|403)$");
});
