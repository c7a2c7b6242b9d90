// Authorities are replaced on a world in memory whose machines let nobody in by an authority they do not know.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { proveReached } from "../client/cluster-ways.ts";
import { machinesOf } from "../cluster/machines.ts";
import { readLock } from "../folder/lock-file.ts";
import { stepName } from "../plan/plan-steps.ts";
import { stepText } from "../plan/step-text.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { parseBundle, writeBundle } from "../secrets/bundle-file.ts";
import { certificatePrints } from "../secrets/rotation.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { recordRotated } from "./decide/decide-upgrades.ts";
import { makeTrace } from "./make-trace.ts";
import { OpenCluster } from "./open-cluster.ts";

const BOTH = { talos: true, kubernetes: true };
const clock = instantClock();
let original: SecretsBundle;
/** As the file has them. */
let kept: SecretsBundle;
let world: FakeWorld;
let folder = "";

beforeAll(async () => {
  original = await testBundle();
});
beforeEach(async () => {
  world = new FakeWorld();
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-rotation-"));
  kept = original;
  await open().apply();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Faults {
  readonly append?: () => void;
  readonly more?: Readonly<Record<string, unknown>>;
  readonly prove?: () => Promise<void>;
}

function open({ append = () => undefined, more = {}, prove }: Faults = {}): OpenCluster {
  const cluster = testCluster(more);
  const lock = readLock(folder, "prod");
  const machines = machinesOf(cluster, lock.machines);
  return new OpenCluster({
    place: { file: "cluster.yaml", folder, text: "", cluster, lock, machines, patches: new Map() },
    secrets: kept,
    secretsFile: join(folder, "secrets"),
    drivers: new Map([["pve", world.driver(clock)]]),
    talos: world.talosOf(() => kept),
    kubernetes: world.kubernetes,
    clock,
    journal: { append, lines: () => [] },
    prepareImage: async (url) => url,
    keepSnapshot: async () => ({ at: clock.now(), file: "etcd.snapshot", sha256: "0" }),
    keepSecrets: async (secrets) => {
      // Through the file's form, as the next run reads it.
      kept = parseBundle(writeBundle(secrets));
    },
    prove:
      prove ??
      ((secrets) =>
        proveReached(
          machines.map(({ name, addresses }) => ({ name, address: addresses[0] ?? "" })),
          { talos: world.talosOf(() => secrets), kubernetes: world.kubernetes, clock },
        )),
  });
}

const authorities = (): readonly string[] => [
  ...new Set([...world.machines.values()].map(({ config }) => config?.ca.crt ?? "")),
];
const accepted = (): readonly string[] => [
  ...new Set([...world.machines.values()].flatMap(({ config }) => config?.accepted ?? [])),
];

const PHASE = ["prod-cp-2", "prod-cp-3", "prod-cp-1", "prod-worker-1", "prod-worker-2"];

test("one machine after another accepts, issues and forgets, and nobody is locked out", async () => {
  const cluster = open();
  await cluster.rotate(BOTH);
  const plan = makeTrace(cluster.desired(), await cluster.observe());
  // Nothing is kept of what was only planned.
  expect(kept).toBe(original);
  const { steps, findings } = await cluster.apply();
  expect(findings).toEqual([]);
  expect(steps.map(stepName)).toEqual([
    "etcd.snapshot prod-cp-1",
    ...["accept", "issue", "remove"].flatMap((phase) => [
      ...PHASE.map((name) => `talos.reconfigure ${name}`),
      `record.rotated ${phase}`,
    ]),
  ]);
  expect(plan.steps.map(stepName)).toEqual(steps.map(stepName));
  expect(steps.map(stepText).join("\n")).toContain("no machine accepts the old authorities any more");
  expect(plan.steps.map(stepText).join("\n")).not.toContain("BEGIN");
  expect(kept.rotation).toBeUndefined();
  expect(kept.certs.os.crt).not.toBe(original.certs.os.crt);
  expect(kept.certs.k8s.crt).not.toBe(original.certs.k8s.crt);
  expect(kept.certs.etcd).toEqual(original.certs.etcd);
  expect([authorities(), accepted()]).toEqual([[kept.certs.os.crt], []]);
  expect(readLock(folder, "prod").formerAuthorities).toEqual([
    ...certificatePrints(original.certs.os.crt),
    ...certificatePrints(original.certs.k8s.crt),
  ]);
  expect((await open().apply()).steps).toEqual([]);
  expect(world.quorumLosses).toBe(0);
});

test("killed after any line of the journal, again and again, the same rotation comes to its end", async () => {
  const first = open({ append: killing(1) });
  await first.rotate({ talos: true, kubernetes: false });
  await expect(first.apply()).rejects.toThrow("killed");
  const chosen = kept.rotation?.os?.crt;
  expect(chosen).toContain("BEGIN CERTIFICATE");
  let runs = 1;
  for (let isDone = false; !isDone; runs += 1) {
    if (runs > 100) throw new Error("it does not come to an end");
    try {
      isDone = (await open({ append: killing(1 + (runs % 4)) }).apply()).findings.length === 0;
    } catch (err) {
      expect(String(err)).toContain("killed");
    }
  }
  expect(runs).toBeGreaterThan(10);
  expect(kept.certs.os.crt).toBe(chosen);
  expect(kept.certs.k8s).toEqual(original.certs.k8s);
  expect([authorities(), accepted()]).toEqual([[chosen], []]);
  expect(world.quorumLosses).toBe(0);
});

function killing(after: number): () => void {
  let lines = 0;
  return () => {
    lines += 1;
    if (lines > after) throw new Error("killed");
  };
}

test("a machine that is away holds everybody in the phase", async () => {
  world.unreachable.add("prod-worker-2");
  const cluster = open();
  await cluster.rotate(BOTH);
  await expect(cluster.apply()).rejects.toThrow();
  expect(kept.rotation?.phase).toBe("accept");
  expect(authorities()).toEqual([original.certs.os.crt]);
  world.unreachable.clear();
  expect((await open().apply()).findings).toEqual([]);
  expect(authorities()).toEqual([kept.certs.os.crt]);
});

test("the old authority stays while anybody is not reached without it", async () => {
  const cluster = open({ prove: () => Promise.reject(new Error("not reached")) });
  await cluster.rotate(BOTH);
  await expect(cluster.apply()).rejects.toThrow("not reached");
  expect(kept.rotation?.phase).toBe("issue");
  expect(accepted()).toEqual([original.certs.os.crt]);
  const asked = proveReached([{ name: "prod-cp-1", address: "10.0.0.10" }], {
    talos: world.talosOf(() => original),
    kubernetes: { nodes: () => Promise.reject(new Error("bad certificate")) },
    clock,
  });
  await expect(asked).rejects.toMatchObject({ data: { finding: "rotation-unproven" } });
  // Another rotation is not begun on top of it.
  const again = open();
  await again.rotate(BOTH);
  expect((await again.apply()).findings).toEqual([]);
  expect(kept.rotation).toBeUndefined();
});

test("nothing is changed while etcd is not well", async () => {
  world.clusters.all[0]?.errors.set("prod-cp-3", "disk is slow");
  const cluster = open();
  await cluster.rotate(BOTH);
  await expect(cluster.apply()).rejects.toThrow("disk is slow");
  expect(accepted()).toEqual([]);
});

test("a phase is not over while a machine that left the file is still there", async () => {
  const cluster = open({ more: { pools: [{ name: "worker", count: 1 }], protect: { minWorkers: 0 } } });
  await cluster.rotate(BOTH);
  const { steps } = makeTrace(cluster.desired(), await cluster.observe());
  const names = steps.map(stepName);
  expect(names.indexOf("guest.delete prod-worker-2")).toBeGreaterThanOrEqual(0);
  expect(names.indexOf("guest.delete prod-worker-2")).toBeLessThan(names.indexOf("record.rotated accept"));
});

test("the rule itself stops at a machine that is behind or unknown to the file", async () => {
  const cluster = open();
  await cluster.rotate(BOTH);
  const desired = cluster.desired();
  const seen = await cluster.observe();
  const behind = recordRotated({ desired, world: seen });
  expect(behind?.findings.map(({ id }) => id)).toContain("rotation-waits");
  expect(behind?.steps).toEqual([]);
  const unknown = recordRotated({ desired: { ...desired, machines: [] }, world: seen });
  expect(unknown?.findings).toHaveLength(5);
  expect(recordRotated({ desired: { ...desired, rotation: undefined }, world: seen })).toBeUndefined();
});
