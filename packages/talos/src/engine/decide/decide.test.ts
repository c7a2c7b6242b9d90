// What is decided, from nothing to day two: by the plan that follows from it.
import { describe, expect, test } from "vitest";
import { machinesOf } from "../../cluster/machines.ts";
import { stepName } from "../../plan/plan-steps.ts";
import { testCluster } from "../../testing/test-cluster.ts";
import { emptyWorld, madeWorld, testDesired } from "../../testing/test-desired.ts";
import { decide } from "./decide.ts";
import type { Desired } from "../desired.ts";
import { makeTrace } from "../make-trace.ts";
import { configured, type Configured, type SeenMachine, type SeenNode, type World } from "../world.ts";

const names = (desired: Desired, world: World): readonly string[] =>
  makeTrace(desired, world).steps.map(stepName);

function change(world: World, name: string, how: (seen: SeenMachine) => SeenMachine): World {
  const seen = world.machines.get(name);
  if (seen === undefined) throw new Error(`no ${name}`);
  return { ...world, machines: new Map(world.machines).set(name, how(seen)) };
}

const talos = (world: World, name: string, how: Partial<Configured>): World =>
  change(world, name, (seen) => ({ ...seen, talos: { ...configured(seen), ...how } as Configured }));

const node = (world: World, name: string, how: Partial<SeenNode>): World => ({
  ...world,
  kubernetes: {
    addons: new Map(),
    nodes: (world.kubernetes?.nodes ?? []).map((each) => (each.name === name ? { ...each, ...how } : each)),
  },
});

/** Of all nodes at any time, by the drains and what follows them. */
function mostAway(steps: readonly string[]): number {
  let [now, most] = [0, 0];
  for (const name of steps) {
    now += name.startsWith("node.drain ") ? 1 : name.startsWith("node.uncordon ") ? -1 : 0;
    most = Math.max(most, now);
  }
  return most;
}

const desired = testDesired();
const begun = { beginning: { machine: "prod-cp-1", doneAt: "2026-01-01" } };

describe("from nothing", () => {
  test("machines, configurations, etcd once, everybody joins, nodes are ready", () => {
    const steps = names(desired, emptyWorld(desired));
    const machines = machinesOf(desired.cluster).map(({ name }) => name);
    expect(steps[0]).toMatch(/^image\.ensure talos-v1\.13\.9-/);
    expect(steps.slice(1)).toEqual([
      ...machines.flatMap((name) => [`guest.create ${name}`, `guest.resize ${name}`, `guest.start ${name}`]),
      ...machines.map((name) => `talos.reach ${name}`),
      ...machines.map((name) => `talos.configure ${name}`),
      "etcd.bootstrap prod-cp-1",
      "etcd.join prod-cp-2",
      "etcd.join prod-cp-3",
      "kubernetes.reach prod",
      ...machines.map((name) => `node.ready ${name}`),
    ]);
    expect(names({ ...desired, ...begun }, madeWorld(desired))).toEqual([]);
  });

  test("parts are done alone", () => {
    const kinds = (only: Desired["only"], world: World) => [
      ...new Set(names({ ...desired, only }, world).map((name) => name.split(" ")[0])),
    ];
    expect(kinds("infrastructure", emptyWorld(desired))).toEqual([
      "image.ensure",
      "guest.create",
      "guest.resize",
      "guest.start",
    ]);
    const infrastructure = makeTrace({ ...desired, only: "infrastructure" }, emptyWorld(desired)).world;
    expect(kinds("bootstrap", infrastructure)).toEqual([
      "talos.reach",
      "talos.configure",
      "etcd.bootstrap",
      "etcd.join",
      "kubernetes.reach",
      "node.ready",
    ]);
    expect(kinds("addons", madeWorld(desired))).toEqual([]);
  });

  test("add-ons come in order: the network before nodes can be ready, the others after", () => {
    const addons = ["cilium", "metrics-server", "proxmox-ccm"].map((name) => ({
      name,
      digest: "1",
      isNetwork: name === "cilium",
    }));
    const steps = names({ ...desired, addons }, emptyWorld(desired));
    const at = (name: string) => steps.indexOf(name);
    expect(at("addon.apply cilium")).toBeLessThan(at("node.ready prod-cp-1"));
    expect(steps.slice(-2)).toEqual(["addon.apply metrics-server", "addon.apply proxmox-ccm"]);
    expect(names({ ...desired, addons, only: "ccm" }, madeWorld(desired))).toEqual([
      "addon.apply proxmox-ccm",
    ]);
    const done = makeTrace({ ...desired, addons }, emptyWorld(desired)).world;
    const newer = addons.map((addon) => ({ ...addon, digest: addon.name === "metrics-server" ? "2" : "1" }));
    expect(names({ ...desired, ...begun, addons: newer }, done)).toEqual(["addon.apply metrics-server"]);
  });
});

describe("etcd is begun once", () => {
  const infrastructure = makeTrace({ ...desired, only: "infrastructure" }, emptyWorld(desired)).world;
  const configuredWorld = ["prod-cp-1", "prod-cp-2", "prod-cp-3", "prod-worker-1", "prod-worker-2"].reduce(
    (world, name) =>
      change(world, name, (seen) => ({
        ...seen,
        talos: configured(madeWorld(desired).machines.get(name)) ?? seen.talos,
      })),
    infrastructure,
  );
  const unbegun = ["prod-cp-1", "prod-cp-2", "prod-cp-3"].reduce(
    (world, name) => talos(world, name, { etcd: undefined, isReady: false, etcdService: "Preparing" }),
    configuredWorld,
  );

  test("on the first control plane, or where it was begun before", () => {
    expect(decide(desired, unbegun).steps.map(stepName)).toEqual(["etcd.bootstrap prod-cp-1"]);
    const tried = { ...desired, beginning: { machine: "prod-cp-2", doneAt: null } };
    expect(decide(tried, unbegun).steps.map(stepName)).toEqual(["etcd.bootstrap prod-cp-2"]);
  });

  test("never where it was begun and is gone, nor while one may have it", () => {
    expect(decide({ ...desired, ...begun }, unbegun)).toMatchObject({
      steps: [],
      findings: [{ id: "etcd-lost" }],
    });
    const running = talos(unbegun, "prod-cp-3", { etcdService: "Running" });
    expect(decide(desired, running).findings).toMatchObject([
      { id: "bootstrap-unsure", evidence: "etcd of prod-cp-3 is Running" },
    ]);
    const left: SeenMachine = {
      name: "prod-cp-4",
      hostname: "prod-cp-4",
      role: "controlplane",
      guest: unbegun.machines.get("prod-cp-1")?.guest,
      talos: { state: "silent", reason: "timeout" },
    };
    const more = { ...unbegun, machines: new Map(unbegun.machines).set("prod-cp-4", left) };
    expect(decide(desired, more).findings).toMatchObject([
      { id: "bootstrap-unsure", evidence: "prod-cp-4 is silent" },
    ]);
  });

  test("another machine at an address stops everything", () => {
    const foreign = change(unbegun, "prod-cp-2", (seen) => ({
      ...seen,
      talos: { state: "foreign", reason: "10.0.0.11 is the machine x" },
    }));
    expect(decide(desired, foreign)).toMatchObject({ steps: [], findings: [{ id: "machine-foreign" }] });
  });
});

describe("day two", () => {
  const made = madeWorld(desired);
  const now = { ...desired, ...begun };

  test("more workers are made beside the others", () => {
    const cluster = testCluster({ pools: [{ name: "worker", count: 3 }] });
    const more = { ...testDesired(cluster), ...begun };
    const world = { ...made, machines: new Map([...emptyWorld(more).machines, ...made.machines]) };
    expect(names(more, world)).toEqual([
      "guest.create prod-worker-3",
      "guest.resize prod-worker-3",
      "guest.start prod-worker-3",
      "talos.reach prod-worker-3",
      "talos.configure prod-worker-3",
      "node.ready prod-worker-3",
    ]);
  });

  test("fewer workers: emptied first, deleted last", () => {
    const less = { ...testDesired(testCluster({ pools: [{ name: "worker", count: 1 }] })), ...begun };
    expect(names(less, made)).toEqual([
      "node.drain prod-worker-2",
      "guest.stop prod-worker-2",
      "node.delete prod-worker-2",
      "guest.delete prod-worker-2",
    ]);
    const guarded = testCluster({ pools: [{ name: "worker", count: 1 }], protect: { minWorkers: 2 } });
    expect(decide({ ...testDesired(guarded), ...begun }, made).findings).toMatchObject([
      { id: "workers-protected" },
    ]);
  });

  test("fewer control planes leave etcd one by one, after a snapshot", () => {
    const less = { ...testDesired(testCluster({ controlPlane: { count: 1 }, endpoint: {} })), ...begun };
    expect(names(less, made)).toEqual([
      "node.drain prod-cp-2",
      "etcd.snapshot prod-cp-1",
      "etcd.leave prod-cp-2",
      "guest.stop prod-cp-2",
      "node.delete prod-cp-2",
      "guest.delete prod-cp-2",
      "node.drain prod-cp-3",
      "etcd.leave prod-cp-3",
      "guest.stop prod-cp-3",
      "node.delete prod-cp-3",
      "guest.delete prod-cp-3",
    ]);
  });

  test("a control plane is replaced while the others keep the quorum", () => {
    expect(names({ ...now, replacing: ["prod-cp-1"] }, made)).toEqual([
      "node.drain prod-cp-1",
      "etcd.snapshot prod-cp-1",
      "etcd.leave prod-cp-1",
      "guest.stop prod-cp-1",
      "node.delete prod-cp-1",
      "guest.delete prod-cp-1",
      "record.replaced prod-cp-1",
      "guest.create prod-cp-1",
      "guest.resize prod-cp-1",
      "guest.start prod-cp-1",
      "talos.reach prod-cp-1",
      "talos.configure prod-cp-1",
      "etcd.join prod-cp-1",
      "node.ready prod-cp-1",
    ]);
  });

  test("one whose guest was deleted is removed from etcd before it comes back", () => {
    const gone = change(made, "prod-cp-3", (seen) => ({
      ...seen,
      guest: undefined,
      talos: { state: "off" },
    }));
    expect(names(now, node(gone, "prod-cp-3", { isReady: false })).slice(0, 3)).toEqual([
      "etcd.snapshot prod-cp-1",
      "etcd.remove prod-cp-3",
      "guest.create prod-cp-3",
    ]);
    const two = change(gone, "prod-cp-2", (seen) => ({ ...seen, guest: undefined, talos: { state: "off" } }));
    expect(decide(now, two)).toMatchObject({ steps: [], findings: [{ id: "quorum-lost" }] });
  });

  test("Talos: a canary, control planes with the leader last, then the other workers", () => {
    const cluster = testCluster({ versions: { talos: "v1.13.10" }, pools: [{ name: "worker", count: 4 }] });
    const old = { ...testDesired(testCluster({ pools: [{ name: "worker", count: 4 }] })), ...begun };
    const next = { ...testDesired(cluster), ...begun, config: old.config };
    const steps = names(next, madeWorld({ ...old, beginning: undefined }));
    const upgrades = steps.filter((name) => name.startsWith("talos.upgrade"));
    expect(upgrades.map((name) => name.split(" ")[1])).toEqual([
      "prod-worker-1",
      "prod-cp-2",
      "prod-cp-3",
      "prod-cp-1",
      "prod-worker-2",
      "prod-worker-3",
      "prod-worker-4",
    ]);
    expect(steps.slice(0, 8)).toEqual([
      "node.drain prod-worker-1",
      "talos.upgrade prod-worker-1",
      "node.uncordon prod-worker-1",
      "etcd.snapshot prod-cp-1",
      "node.drain prod-cp-2",
      "talos.upgrade prod-cp-2",
      "node.uncordon prod-cp-2",
      "node.drain prod-cp-3",
    ]);
  });

  test("several workers at once, as their pool allows", () => {
    const pools = [{ name: "worker", count: 4, upgrade: { maxUnavailable: 2 } }];
    const old = testDesired(testCluster({ pools }));
    const next = {
      ...testDesired(testCluster({ pools, versions: { talos: "v1.13.10" } })),
      ...begun,
      config: old.config,
    };
    const steps = names(next, madeWorld(old)).slice(-9);
    expect(steps).toEqual([
      "node.drain prod-worker-2",
      "node.drain prod-worker-3",
      "talos.upgrade prod-worker-2",
      "talos.upgrade prod-worker-3",
      "node.uncordon prod-worker-2",
      "node.uncordon prod-worker-3",
      "node.drain prod-worker-4",
      "talos.upgrade prod-worker-4",
      "node.uncordon prod-worker-4",
    ]);
    const done = madeWorld({ ...next, beginning: undefined });
    const cordoned = ["prod-worker-3", "prod-worker-4"].reduce(
      (world, name) => node(world, name, { isCordoned: true }),
      talos(done, "prod-worker-2", { version: "v1.13.9" }),
    );
    expect(decide(next, cordoned).findings).toMatchObject([{ id: "nodes-away" }]);
  });

  test.each([
    ["v1.12.0", "v1.14.0", "skips minors"],
    ["v1.13.9", "v1.12.1", "goes back a minor"],
  ])("from %s to %s is refused", (from, to, reason) => {
    const world = [...made.machines.keys()].reduce(
      (each, name) => talos(each, name, { version: from }),
      made,
    );
    const cluster = { ...desired.cluster, versions: { ...desired.cluster.versions, talos: to } };
    expect(decide({ ...now, cluster }, world).findings).toMatchObject([
      { id: "talos-step", evidence: expect.stringContaining(reason) },
    ]);
  });

  test("Kubernetes: every API server before any kubelet", () => {
    const older = testCluster({ versions: { talos: "v1.13.9", kubernetes: "v1.35.4" } });
    const steps = names({ ...now }, madeWorld(testDesired(older)));
    expect(steps).toEqual([
      "etcd.snapshot prod-cp-1",
      ...["prod-cp-1", "prod-cp-2", "prod-cp-3"].map((name) => `kubernetes.components ${name}`),
      ...[...made.machines.keys()].map((name) => `kubernetes.kubelet ${name}`),
    ]);
    const skip = testCluster({ versions: { talos: "v1.13.9", kubernetes: "v1.34.0" } });
    expect(decide(now, madeWorld(testDesired(skip))).findings).toMatchObject([{ id: "kubernetes-step" }]);
  });

  test("a configuration that needs no reboot is given to all at once; another rolls", () => {
    const light = { change: { needsReboot: false, differences: ["machine.sysctls.x: 1 -> 2"] } };
    const config = { rest: "old", kubelet: "1.36.3", components: "1.36.3" };
    const workers = ["prod-worker-1", "prod-worker-2"];
    const world = workers.reduce(
      (each, name) => talos(each, name, { ...light, config: { ...config, components: undefined } }),
      made,
    );
    expect(names(now, world)).toEqual(workers.map((name) => `talos.reconfigure ${name}`));
    const heavy = { change: { needsReboot: true, differences: [] }, config };
    expect(names(now, talos(made, "prod-cp-2", heavy))).toEqual([
      "etcd.snapshot prod-cp-1",
      "node.drain prod-cp-2",
      "talos.reconfigure prod-cp-2",
      "node.uncordon prod-cp-2",
    ]);
  });

  test("whatever a machine has to be away for is done within one drain", () => {
    const pools = [{ name: "worker", count: 3 }];
    const before = madeWorld(testDesired(testCluster({ pools })));
    const other = { needsReboot: true, differences: [] };
    const world = [...before.machines.keys()].reduce(
      (each, name) =>
        talos(each, name, {
          change: other,
          config: {
            rest: "old",
            kubelet: "1.36.3",
            components: name.includes("-cp-") ? "1.36.3" : undefined,
          },
        }),
      before,
    );
    const cores = { machine: { cores: 6 } };
    const next = (file: object) => ({
      ...testDesired(testCluster({ pools, versions: { talos: "v1.13.10" }, ...file })),
      ...begun,
    });
    const steps = names(next({}), world);
    expect(steps.slice(0, 8)).toEqual([
      "node.drain prod-worker-1",
      "talos.upgrade prod-worker-1",
      "talos.reconfigure prod-worker-1",
      "node.uncordon prod-worker-1",
      "etcd.snapshot prod-cp-1",
      "node.drain prod-cp-2",
      "talos.upgrade prod-cp-2",
      "talos.reconfigure prod-cp-2",
    ]);
    expect(steps).toHaveLength(1 + 4 * 6);
    const all = names(next({ pools: [{ ...pools[0], ...cores }] }), world);
    expect(all.filter((name) => name.endsWith("prod-worker-3"))).toEqual(
      [
        "node.drain",
        "guest.stop",
        "guest.change",
        "guest.start",
        "talos.reach",
        "node.ready",
        "talos.upgrade",
        "talos.reconfigure",
        "node.uncordon",
      ].map((kind) => `${kind} prod-worker-3`),
    );
    expect(mostAway(all)).toBe(1);
  });

  test("other settings of guests roll as upgrades do, as many at once as their pool allows", () => {
    const pool = { name: "worker", count: 4, upgrade: { maxUnavailable: 2 } };
    const before = madeWorld(testDesired(testCluster({ pools: [pool] })));
    const cluster = testCluster({ pools: [{ ...pool, machine: { cores: 6 } }] });
    const next = { ...testDesired(cluster), ...begun };
    const steps = names(next, before);
    expect(steps.filter((name) => name.startsWith("guest.stop"))).toEqual(
      [1, 2, 3, 4].map((number) => `guest.stop prod-worker-${number}`),
    );
    expect(steps[0]).toBe("node.drain prod-worker-1");
    expect(steps.indexOf("node.drain prod-worker-2")).toBeGreaterThan(
      steps.indexOf("node.uncordon prod-worker-1"),
    );
    expect(mostAway(steps)).toBe(2);
  });

  test("who was drained is worked on to the end before anybody else is", () => {
    const pools = [{ name: "worker", count: 4 }];
    const old = madeWorld(testDesired(testCluster({ pools })));
    const cluster = testCluster({ pools, versions: { talos: "v1.13.10" } });
    const next = { ...testDesired(cluster), ...begun };
    const drained = ["prod-worker-3", "prod-worker-4"].reduce(
      (world, name) => node(world, name, { isCordoned: true, isOurCordon: true }),
      old,
    );
    expect(decide(next, drained).steps.map(stepName)).toEqual(["talos.upgrade prod-worker-3"]);
    const plane = node(drained, "prod-cp-1", { isCordoned: true, isOurCordon: true });
    expect(decide(next, { ...plane, snapshotAt: plane.now }).steps.map(stepName)).toEqual([
      "talos.upgrade prod-cp-1",
    ]);
    // Somebody else's cordon takes the place of the canary.
    const others = node(old, "prod-worker-3", { isCordoned: true });
    expect(decide(next, others).findings).toMatchObject([{ id: "nodes-away", subject: "worker" }]);
  });

  test("etcd that is not well, or too small, keeps its members", () => {
    const cluster = { ...desired.cluster, versions: { ...desired.cluster.versions, talos: "v1.13.10" } };
    const plane = { ...now, cluster, machines: now.machines.filter(({ role }) => role === "controlplane") };
    const fresh = { ...made, snapshotAt: made.now };
    const sick = talos(fresh, "prod-cp-3", {
      etcd: {
        ...(configured(made.machines.get("prod-cp-3"))?.etcd as never as object),
        problems: ["alarm"],
      } as never,
    });
    expect(decide(plane, sick).steps.map(stepName)).toEqual(["etcd.join prod-cp-3"]);
    const single = testDesired(testCluster({ controlPlane: { count: 1 }, endpoint: {}, pools: [] }));
    const newer = { ...single, ...begun, cluster: { ...single.cluster, versions: cluster.versions } };
    const one = { ...madeWorld(single), snapshotAt: 0 };
    expect(decide(newer, one)).toMatchObject({ findings: [{ id: "quorum-at-risk" }] });
    expect(decide({ ...newer, acceptsDowntime: true }, one).steps.map(stepName)).toEqual([
      "node.drain prod-cp-1",
    ]);
    expect(decide({ ...newer, acceptsDowntime: true }, madeWorld(single)).steps.map(stepName)).toEqual([
      "etcd.snapshot prod-cp-1",
    ]);
  });

  test("what was cordoned by others stays so", () => {
    expect(names(now, node(made, "prod-worker-1", { isCordoned: true }))).toEqual([]);
    expect(names(now, node(made, "prod-worker-1", { isCordoned: true, isOurCordon: true }))).toEqual([
      "node.uncordon prod-worker-1",
    ]);
  });
});
