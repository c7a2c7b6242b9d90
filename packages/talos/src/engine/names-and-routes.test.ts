// Machines that tell a name or a way out that is not theirs, from the stand-in's state and over its gRPC.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { TalosMachines } from "../client/talos-machines.ts";
import { machinesOf } from "../cluster/machines.ts";
import { writeConfig } from "../config/config-text.ts";
import { readLock } from "../folder/lock-file.ts";
import { machineConfig } from "../render/machine-config.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { StandInClusters } from "../testing/stand-in/cluster-etcd.ts";
import type { MachineState } from "../testing/stand-in/machine-state.ts";
import { TalosStandIn } from "../testing/stand-in/talos-stand-in.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { clusterStatus } from "../status/cluster-status.ts";
import { routeProblem } from "./default-routes.ts";
import { lookAtMachine } from "./observe/look-at-machine.ts";
import { OpenCluster } from "./open-cluster.ts";

let secrets: SecretsBundle;
beforeAll(async () => {
  secrets = await testBundle(Date.now());
});

describe("a cluster", () => {
  let folder: string;
  let world: FakeWorld;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "gpve-talos-names-"));
    world = new FakeWorld();
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  function open() {
    const cluster = testCluster();
    const lock = readLock(folder, "prod");
    const clock = instantClock();
    const machines = machinesOf(cluster, lock.machines);
    return new OpenCluster({
      place: { file: "cluster.yaml", folder, text: "", cluster, lock, machines, patches: new Map() },
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

  /** From the moment on in which their guests are there. */
  function whenMade(change: (machine: MachineState, at: number) => void): void {
    const before = world.platform.onGuest;
    let count = 0;
    world.platform.onGuest = (event, config) => {
      const known = new Set(world.machines.keys());
      before(event, config);
      for (const [uuid, machine] of world.machines) if (!known.has(uuid)) change(machine, count++);
    };
  }

  test("two of one name are hostname-clash before etcd is begun, and nothing is made of them", async () => {
    whenMade((machine, at) => {
      if (at === 1 || at === 2) machine.announces = "template";
    });
    const { findings } = await open().apply();
    expect(findings).toMatchObject([
      { id: "hostname-clash", subject: "prod-cp-2, prod-cp-3", evidence: "each says that it is template" },
    ]);
    expect(world.clusters.all.flatMap(({ members }) => members)).toEqual([]);
    for (const machine of world.machines.values()) machine.announces = undefined;
    expect((await open().apply()).findings).toEqual([]);
  });

  test("of two with one name in a cluster that runs none is removed, upgraded or restarted", async () => {
    await open().apply();
    const members = () => world.clusters.all.flatMap((etcd) => etcd.members.map(({ hostname }) => hostname));
    const before = [world.platform.done.length, members()];
    world.machine("prod-cp-2").announces = "prod-cp-1";
    const { findings, steps } = await open().apply();
    expect(findings.map(({ id }) => id)).toEqual(["hostname-clash"]);
    expect(steps).toEqual([]);
    expect([world.platform.done.length, members()]).toEqual(before);
  });

  test("a name of its own is hostname-differs where the node would be waited for in vain", async () => {
    whenMade((machine, at) => {
      if (at === 3) machine.announces = "talos-x1y-z2w";
    });
    const { findings } = await open().apply();
    expect(findings).toMatchObject([
      {
        id: "hostname-differs",
        subject: "prod-worker-1",
        evidence: "it says that it is talos-x1y-z2w, the file says prod-worker-1",
      },
    ]);
  });

  test("a second card's way out is default-route-wrong before etcd is begun; mended, it goes on", async () => {
    const own = { gateway: "10.0.0.1", link: "net0" };
    whenMade((machine, at) => {
      machine.defaultRoutes = at === 0 ? [own, { gateway: "192.168.7.1", link: "eth1" }] : [own];
    });
    const { findings } = await open().apply();
    expect(findings).toMatchObject([
      {
        id: "default-route-wrong",
        subject: "prod-cp-1",
        evidence: "beside 10.0.0.1 it has the default route 192.168.7.1 by eth1 (metric 1024)",
      },
    ]);
    expect(world.clusters.all.flatMap(({ members }) => members)).toEqual([]);
    for (const machine of world.machines.values()) machine.defaultRoutes = [own];
    expect((await open().apply()).findings).toEqual([]);
  });

  test("what changes later stops nothing, and is told by status and verify", async () => {
    const opened = open();
    await opened.apply();
    const names = ["machines have the names of the file", "the way out is network.gateway"];
    const checks = async () => {
      const status = clusterStatus(opened.desired(), await opened.observe(), opened.lock, undefined);
      return status.checks.filter(({ name }) => names.includes(name));
    };
    expect(await checks()).toMatchObject([{ isFine: true }, { isFine: true }]);
    world.machine("prod-worker-1").defaultRoutes = [{ gateway: "10.9.9.9", link: "eth1" }];
    expect((await open().apply()).findings).toEqual([]);
    world.machine("prod-worker-2").announces = "other";
    expect(await checks()).toMatchObject([
      { isFine: false, detail: "prod-worker-2 says that it is other" },
      {
        isFine: false,
        detail:
          "prod-worker-1: its default route is 10.9.9.9 by eth1 (metric 1024); network.gateway is 10.0.0.1",
      },
    ]);
  });
});

test.each([
  ["nobody told", undefined, undefined],
  ["one way", [["10.0.0.1", 1024]], undefined],
  [
    "another that is only taken when that is gone",
    [
      ["10.0.0.1", 512],
      ["10.9.0.1", 1024],
    ],
    undefined,
  ],
  [
    "another that is taken first",
    [
      ["10.0.0.1", 1024],
      ["10.9.0.1", 512],
    ],
    "beside 10.0.0.1",
  ],
  [
    "another family's",
    [
      ["10.0.0.1", 1024],
      ["fe80::1", 512],
    ],
    undefined,
  ],
  ["none", [], "it has no default route"],
] as const)("%s: %j -> %s", (_name, routes, problem) => {
  const defaultRoutes = routes?.map(([gateway, priority]) => ({ gateway, priority, link: "l" }));
  const seen = defaultRoutes === undefined ? {} : { defaultRoutes };
  const told = routeProblem({ gateway: "10.0.0.1" }, seen);
  if (problem === undefined) expect(told).toBeUndefined();
  else expect(told).toContain(problem);
});

describe("over its API", () => {
  const cluster = testCluster();
  const machines = machinesOf(cluster);
  const [machine] = machines;
  if (machine === undefined) throw new Error("no machine");
  let node: TalosStandIn;
  beforeAll(async () => {
    node = await TalosStandIn.start({
      uuid: machine.uuid,
      version: "v1.13.9",
      clusters: new StandInClusters(),
    });
  });
  afterAll(() => node.stop());

  test("a machine tells its name and its default routes alone", async () => {
    const talos = new TalosMachines(secrets, Date.now());
    const text = writeConfig(
      machineConfig({ cluster, secrets, machines, patches: new Map() }, machine).documents,
    );
    const client = await talos.stranger({ name: machine.name, address: node.address }, 30_000);
    await client.apply(text, "auto").finally(() => client.close());
    await node.settled();
    const { name, uuid, role } = machine;
    const look = () => lookAtMachine(talos, { name, uuid, role, address: node.address, wanted: undefined });
    expect(await look()).toMatchObject({ state: "configured", network: { announced: "prod-cp-1" } });
    expect(await look()).not.toHaveProperty("network.defaultRoutes");
    node.machine.announces = "other";
    node.machine.defaultRoutes = [{ gateway: "10.0.0.1", link: "net0" }];
    expect(await look()).toMatchObject({
      network: {
        announced: "other",
        defaultRoutes: [{ gateway: "10.0.0.1", link: "net0", priority: 1024 }],
      },
    });
  });
});
