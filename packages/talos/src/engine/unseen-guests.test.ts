// Guests that cannot be looked at, or are not shown: they are not gone, and nothing is made or taken away in their place.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { given } from "@gpve/contracts/given.ts";
import { stepName } from "../plan/plan-steps.ts";
import { readLock } from "../folder/lock-file.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { driftOf } from "../status/drift.ts";
import { clusterStatus } from "../status/cluster-status.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { madeWorld, testDesired } from "../testing/test-desired.ts";
import { adopted } from "./adopt.ts";
import { makeTrace } from "./make-trace.ts";
import type { SeenMachine, World } from "./world.ts";

let folder: string;
let world: FakeWorld;
let secrets: SecretsBundle;
beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-unseen-"));
  world = new FakeWorld();
  await open().apply();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const open = (more: Readonly<Record<string, unknown>> = {}) =>
  openedCluster(world, { folder, cluster: testCluster(more), secrets });
const members = () => world.clusters.all[0]?.members.map(({ hostname }) => hostname).toSorted();
const all = ["prod-cp-1", "prod-cp-2", "prod-cp-3"];
const CP_2 = 2001;
const WORKER_2 = 3001;

test.each([
  ["no answer", 500, "got no answer from the daemon"],
  ["a privilege that is gone", 403, "Permission check failed (/vms/2001, VM.Audit)"],
])("%s about a guest of ours is told, and costs no member", async (_what, status, message) => {
  const before = world.platform.done.length;
  world.platform.unread.set(CP_2, { status, message });
  await expect(open().apply()).rejects.toThrow(message);
  await expect(open().destroy()).rejects.toThrow(message);
  expect(members()).toEqual(all);
  expect(world.platform.done.slice(before)).toEqual([]);
  expect(readLock(folder, "prod").appliedAt).not.toBeNull();
});

test.each([
  ["a control plane", CP_2, "prod-cp-2"],
  ["a worker", WORKER_2, "prod-worker-2"],
])("%s that is not shown and answers is neither gone nor made anew", async (_what, vmid, name) => {
  const before = world.platform.done.length;
  world.platform.hidden.add(vmid);
  const opened = open();
  expect(await opened.apply()).toMatchObject({
    steps: [],
    findings: [{ id: "guest-hidden", subject: name }],
  });
  await expect(opened.destroy()).rejects.toMatchObject({ data: { finding: "guest-hidden" } });
  expect(members()).toEqual(all);
  expect(world.platform.done.slice(before)).toEqual([]);
  expect(readLock(folder, "prod").appliedAt).not.toBeNull();
  const seen = await opened.observe();
  const detail = "it answers, and no guest of it is shown";
  expect(driftOf(opened.desired(), seen)).toContainEqual({ machine: name, kind: "missing", detail });
  const { machines } = clusterStatus(opened.desired(), seen, opened.lock, secrets);
  expect(machines.filter(({ state }) => state === "hidden").map((each) => each.name)).toEqual([name]);
});

test("where none is shown and Kubernetes is silent, an end of the cluster still finds those that answer", async () => {
  for (const vmid of world.platform.guests.keys()) world.platform.hidden.add(vmid);
  world.fakeKubernetes.drops = Infinity;
  await expect(open().destroy()).rejects.toThrow(/prod-cp-1, .*prod-worker-2 answer/);
});

test("a guest that is really gone leaves etcd after a snapshot, and is made anew", async () => {
  const { platform } = world;
  const node = platform.guests.get(CP_2)?.node ?? "";
  platform.handle("POST", `/nodes/${node}/qemu/${CP_2}/status/stop`, {});
  platform.handle("DELETE", `/nodes/${node}/qemu/${CP_2}`, {});
  const { steps, findings } = await open().apply();
  expect(findings).toEqual([]);
  expect(steps.map(stepName).slice(0, 3)).toEqual([
    "etcd.snapshot prod-cp-1",
    "etcd.remove prod-cp-2",
    "guest.create prod-cp-2",
  ]);
  expect(members()).toEqual(all);
});

test("a guest that moves while it is looked at is found where it is then", async () => {
  const { platform } = world;
  const handle = platform.handle.bind(platform);
  const guest = platform.guests.get(CP_2);
  if (guest === undefined) throw new Error("no control plane");
  let isMoved = false;
  platform.handle = (verb, path, values) => {
    if (!isMoved && path.endsWith(`/qemu/${CP_2}/config`)) {
      isMoved = true;
      guest.node = "pve3";
    }
    return handle(verb, path, values);
  };
  expect((await open().observe()).machines.get("prod-cp-2")?.guest?.place.host).toBe("pve3");
});

test("guests on a node that is away are left alone, and the file is followed elsewhere", async () => {
  const { platform } = world;
  const host = platform.guests.get(WORKER_2)?.node ?? "";
  const node = platform.nodes.get(host);
  if (node === undefined) throw new Error("no such node");
  node.status = "offline";
  for (const [vmid, guest] of platform.guests) {
    if (guest.node !== host) continue;
    platform.unread.set(vmid, { status: 595, message: "No route to host" });
    guest.status = "stopped";
  }
  const before = platform.done.length;
  const opened = open({ pools: [{ name: "worker", count: 3 }] });
  const { steps, findings } = await opened.apply();
  expect(steps.map(stepName)).toContain("talos.configure prod-worker-3");
  expect(steps.map(stepName)).not.toContainEqual(expect.stringMatching(/worker-2/));
  expect(findings).toContainEqual(
    expect.objectContaining({
      id: "guest-unread",
      subject: "prod-worker-2",
      evidence: `on ${host}: No route to host`,
    }),
  );
  expect(platform.done.slice(before).filter((line) => line.includes(`/qemu/${WORKER_2}`))).toEqual([]);
  const seen = await opened.observe();
  expect(driftOf(opened.desired(), seen)).toContainEqual({
    machine: "prod-worker-2",
    kind: "silent",
    detail: "its guest cannot be looked at: No route to host",
  });
  await expect(opened.destroy()).rejects.toThrow("No route to host");
  expect(readLock(folder, "prod").appliedAt).not.toBeNull();
});

test("who is to be replaced, or to go, keeps its member and its node while its guest cannot be looked at", () => {
  const desired = testDesired();
  const whole = madeWorld(desired);
  const unseen = (name: string): World => {
    const seen = whole.machines.get(name);
    if (seen?.guest === undefined) throw new Error(`no ${name}`);
    const guest = { ...seen.guest, isRunning: false, config: {}, unread: "No route to host" };
    const machine: SeenMachine = { ...seen, guest, talos: { state: "off" } };
    return { ...whole, machines: new Map(whole.machines).set(name, machine) };
  };
  const begun = { ...desired, beginning: { machine: "prod-cp-1", doneAt: "2026-01-01" } };
  const replaced = makeTrace({ ...begun, replacing: ["prod-cp-2"] }, unseen("prod-cp-2"));
  expect(replaced.steps).toEqual([]);
  expect(replaced.findings.map(({ id }) => id)).toEqual(["guest-unread"]);
  const machines = begun.machines.filter(({ name }) => name !== "prod-cp-3");
  const smaller = makeTrace({ ...begun, machines }, unseen("prod-cp-3"));
  expect(smaller.steps).toEqual([]);
});

test("a folder that was lost while whoever has etcd is not shown begins it nowhere else", () => {
  const desired = testDesired();
  const whole = madeWorld(desired);
  const [shown, ...hidden] = all;
  const machines = new Map(whole.machines);
  for (const name of hidden) {
    const seen = machines.get(name);
    if (seen !== undefined) machines.set(name, { ...seen, guest: undefined, talos: { state: "off" } });
  }
  const first = machines.get(shown ?? "");
  if (first?.talos.state !== "configured") throw new Error("no control plane");
  // Made anew, it waits to be begun or joined.
  const talos = { ...first.talos, etcd: undefined, etcdService: "Preparing", isReady: false };
  machines.set(first.name, { ...first, talos });
  const { kubernetes: _none, ...rest } = whole;
  const left: World = { ...rest, kubernetes: undefined, machines };
  const { beginning } = adopted(desired.cluster, readLock(mkdtempSync(join(folder, "lost-")), "prod"), left);
  expect(beginning).toMatchObject({ machine: "", doneAt: expect.any(String) });
  const { steps, findings } = makeTrace({ ...desired, ...given({ beginning }) }, left);
  expect(steps.map(stepName)).not.toContainEqual(expect.stringMatching(/^etcd\.bootstrap/));
  expect(findings.map(({ id }) => id)).toContain("bootstrap-unsure");
});
