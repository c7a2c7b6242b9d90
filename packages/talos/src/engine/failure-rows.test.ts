// The table of failures that people report of Talos on Proxmox VE, row by row: what tells each of them, and where that is
// tried. What happens to a cluster that is there is tried here.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { writeConfig } from "../config/config-text.ts";
import { TalosMachines } from "../client/talos-machines.ts";
import { readLock } from "../folder/lock-file.ts";
import { machineConfig } from "../render/machine-config.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { StandInClusters } from "../testing/stand-in/cluster-etcd.ts";
import { TalosStandIn } from "../testing/stand-in/talos-stand-in.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { lookAtMachine } from "./observe/look-at-machine.ts";
import { OpenCluster } from "./open-cluster.ts";

/** Row, what is looked for in the test's text, the test. */
const rows: readonly (readonly [number, string, string])[] = [
  [1, "machine-silent", "engine/failure-table.test.ts"],
  [2, "installer-of-another", "engine/failure-rows.test.ts"],
  [2, "platform-of-image", "preflight/preflight.test.ts"],
  [3, "LinkAliasConfig", "render/render-files.test.ts"],
  [3, "default-route-wrong", "engine/names-and-routes.test.ts"],
  [4, "address-taken", "preflight/preflight.test.ts"],
  [4, "address-answers", "preflight/check-network.test.ts"],
  [5, "install-disk-unsure", "engine/image-ways.test.ts"],
  [6, "cpu-too-old", "preflight/preflight.test.ts"],
  [7, "order=scsi0;ide0", "engine/image-ways.test.ts"],
  [8, "machine-foreign", "engine/failure-table.test.ts"],
  [9, "etcd-not-begun", "engine/open-cluster.test.ts"],
  [10, "etcd-not-joined", "engine/failure-table.test.ts"],
  [11, "bootstrap-unsure", "engine/decide/decide.test.ts"],
  [12, "vip-outside-network", "cluster/file-rules.test.ts"],
  [12, "kubernetes-silent", "engine/failure-table.test.ts"],
  [13, "agent", "plan/plan-guests.test.ts"],
  [14, "storage-content", "preflight/preflight.test.ts"],
  [14, "platform-version", "preflight/preflight.test.ts"],
  [15, "image-version-unknown", "preflight/check-network.test.ts"],
  [15, "image-source-silent", "preflight/check-network.test.ts"],
  [15, "image-rebuilt", "engine/fetched-image.test.ts"],
  [16, "privilege-missing", "preflight/preflight.test.ts"],
  [17, "nodes share them", "preflight/check-image.test.ts"],
  [18, "vmid-taken", "preflight/preflight.test.ts"],
  [19, "hostname-changes", "engine/failure-rows.test.ts"],
  [19, "hostname-clash", "engine/names-and-routes.test.ts"],
  [19, "hostname-patched", "render/render-files.test.ts"],
  [20, "LinkAliasConfig", "render/render-files.test.ts"],
  [21, "mtu-too-large", "preflight/preflight.test.ts"],
  [22, "quorum-at-risk", "engine/decide/decide.test.ts"],
  [23, "drain-timeout", "engine/open-cluster.test.ts"],
  [24, "kernel-args-lost", "engine/failure-rows.test.ts"],
  [25, "upgrade-rolled-back", "engine/open-cluster.test.ts"],
  [26, "secureboot-needs-iso", "preflight/preflight.test.ts"],
  [26, "pre-enrolled-keys=0", "plan/plan-guests.test.ts"],
  [27, "etcd.remove", "engine/decide/decide.test.ts"],
  [28, "balloon", "plan/plan-guests.test.ts"],
  [29, "daysLeft", "engine/day-two.test.ts"],
];
/** Snippets are not used: nothing of it can happen. */
const ANSWERED = [30];

test("every row is tried somewhere, or cannot happen", () => {
  const known = new Set([...rows.map(([row]) => row), ...ANSWERED]);
  expect([...known].toSorted((a, b) => a - b)).toEqual(Array.from({ length: 30 }, (_, at) => at + 1));
  for (const [row, words, file] of rows) {
    const text = readFileSync(resolve(import.meta.dirname, "..", file), "utf8");
    expect(text, `row ${row}`).toContain(words);
  }
});

const pool = { name: "worker", count: 2 };
const next = { versions: { talos: "v1.13.10" } };

describe("a cluster that is there", () => {
  let folder: string;
  let world: FakeWorld;
  let secrets: SecretsBundle;
  beforeAll(async () => {
    secrets = await testBundle();
  });
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-talos-rows-"));
    world = new FakeWorld();
    await open().apply();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function open(
    more: Readonly<Record<string, unknown>> = {},
    patches: ReadonlyMap<string, string> = new Map(),
  ) {
    const cluster = testCluster(more);
    const lock = readLock(folder, "prod");
    const clock = instantClock();
    const machines = machinesOf(cluster, lock.machines);
    return new OpenCluster({
      place: { file: "cluster.yaml", folder, text: "", cluster, lock, machines, patches },
      secrets,
      secretsFile: join(folder, "secrets.enc.yaml"),
      drivers: new Map([["pve", world.driver(clock)]]),
      talos: world.talos,
      kubernetes: world.kubernetes,
      clock,
      journal: { append: () => undefined, lines: () => [] },
      prepareImage: async (url) => url,
      keepSnapshot: async () => ({ file: "x", at: clock.now(), sha256: "" }),
    });
  }

  test("a node that would get another name is hostname-changes, and nothing is done", async () => {
    const before = world.platform.done.length;
    const { findings, steps } = await open({ nodes: { "prod-worker-1": { hostname: "other" } } }).apply();
    expect(findings).toMatchObject([
      { id: "hostname-changes", evidence: "it is the node prod-worker-1, the file says other" },
    ]);
    expect(steps).toEqual([]);
    expect(world.platform.done).toHaveLength(before);
  });

  test("an installer of another platform in a patch is installer-of-another", async () => {
    const text = "machine: { install: { image: 'factory.talos.dev/metal-installer/abc:v1.13.9' } }";
    const opened = open({ pools: [{ ...pool, patches: [{ file: "p.yaml" }] }] }, new Map([["p.yaml", text]]));
    const before = world.platform.done.length;
    await expect(opened.apply()).rejects.toMatchObject({ data: { finding: "installer-of-another" } });
    expect(world.platform.done).toHaveLength(before);
  });

  test("an upgrade after which arguments of the kernel are gone is kernel-args-lost, and the wave stops", async () => {
    const image = { kernelArgs: ["net.ifnames=0", "-talos.dashboard.disabled=1"] };
    await expect(open({ ...next, image }).apply()).rejects.toMatchObject({
      message: expect.stringContaining("booted without net.ifnames=0 after"),
      data: { finding: "kernel-args-lost" },
    });
    const upgraded = [...world.machines.values()].filter(({ version }) => version === "v1.13.10");
    expect(upgraded).toHaveLength(1);
    for (const machine of world.machines.values()) machine.cmdline += " net.ifnames=0";
    expect((await open({ ...next, image }).apply()).findings).toEqual([]);
  });
});

describe("a machine on a bad day", () => {
  const [machine] = machinesOf(testCluster());
  if (machine === undefined) throw new Error("no machine");
  let secrets: SecretsBundle;
  let node: TalosStandIn;

  beforeAll(async () => {
    secrets = await testBundle(Date.now());
    node = await TalosStandIn.start({
      uuid: machine.uuid,
      version: "v1.13.9",
      clusters: new StandInClusters(),
      faults: { cutsEvery: 7, bootMs: 500 },
    });
  });
  afterAll(() => node.stop());

  async function states(times: number): Promise<ReadonlySet<string>> {
    const machines = new TalosMachines(secrets, Date.now());
    const seen = new Set<string>();
    const { name, uuid, role } = machine as NonNullable<typeof machine>;
    for (let at = 0; at < times; at += 1) {
      const question = { name, uuid, role, address: node.address, wanted: undefined };
      seen.add((await lookAtMachine(machines, question)).state);
    }
    return seen;
  }

  test("connections that are cut are silence, never another machine; so is a boot that takes its time", async () => {
    expect(await states(9)).toEqual(new Set(["silent", "maintenance"]));
    const cluster = testCluster();
    const source = { cluster, secrets, machines: machinesOf(cluster), patches: new Map() };
    const text = writeConfig(machineConfig(source, machine).documents);
    const machines = new TalosMachines(secrets, Date.now());
    const give = async (): Promise<boolean> => {
      try {
        const client = await machines.stranger({ name: machine.name, address: node.address }, 5_000);
        await client.apply(text, "auto").finally(() => client.close());
        return true;
      } catch {
        return false;
      }
    };
    for (let isGiven = await give(); !isGiven;) isGiven = await give();
    // It boots, and nobody listens for a while.
    const booting = new Set<string>();
    while (!booting.has("configured")) for (const state of await states(1)) booting.add(state);
    expect(booting).not.toContain("foreign");
    await node.settled();
    expect(await states(9)).toEqual(new Set(["silent", "configured"]));
  });
});
