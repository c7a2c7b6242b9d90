// The load balancer's machine: made before anybody is reached through it, told of control planes that come and go, kept apart
// from machines of Talos, and gone with the cluster.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { parse, stringify } from "yaml";
import { BALANCER_TAG, toldOf } from "../cluster/balancer.ts";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import { readLock } from "../folder/lock-file.ts";
import { stepName } from "../plan/plan-steps.ts";
import { stepCommand, stepText } from "../plan/step-text.ts";
import { checkBalancer } from "../preflight/check-balancer.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { clusterStatus } from "../status/cluster-status.ts";
import { driftOf } from "../status/drift.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { minimalFile, testCluster } from "../testing/test-cluster.ts";
import { emptyWorld, madeWorld, testDesired } from "../testing/test-desired.ts";
import { makeTrace } from "./make-trace.ts";
import { OpenCluster } from "./open-cluster.ts";
import type { World } from "./world.ts";

const front = (more: object = {}) => ({
  endpoint: { loadBalancer: { address: "10.0.0.5", backendsManaged: "vm", ...more } },
});
const withFront = (more: object = {}) => testDesired(testCluster({ ...front(), ...more }));
const names = (steps: readonly { kind: string; subject: string }[]) =>
  steps.map(({ kind, subject }) => `${kind} ${subject}`);

describe("what is decided", () => {
  test("it is made and started before any machine is asked for anything", () => {
    const { steps } = makeTrace(withFront(), emptyWorld(withFront()));
    const all = names(steps);
    expect(all.slice(0, 3)).toEqual([
      expect.stringMatching(/^image\.ensure/),
      "balancer.create prod-lb",
      "balancer.start prod-lb",
    ]);
    const made = steps.find((step) => step.kind === "balancer.create");
    expect(made).toMatchObject({ provider: "pve", place: { host: "pve1", vmid: 9099 } });
    expect(made?.config).toMatchObject({
      name: "prod-lb",
      ipconfig0: "ip=10.0.0.5/24,gw=10.0.0.1",
      scsi0: "local-lvm:0,import-from=local:import/lb.qcow2,discard=on",
      tags: `${BALANCER_TAG};talos-prod`,
    });
    expect(toldOf(made?.config["smbios1"])).toBe("gpve-lb 6443 10.0.0.10:6443 10.0.0.11:6443 10.0.0.12:6443");
    expect(made === undefined ? "" : stepText(made)).toContain(
      "+ create the load balancer prod-lb: VMID 9099",
    );
    expect(made === undefined ? "" : stepCommand(made)).toMatch(/^qm create 9099 --name prod-lb/);
  });

  test("once it is there nothing is left to do, and templates do not take its VMID", () => {
    const desired = withFront({ templates: { clone: "full" }, vmids: { template: "9000-9002" } });
    const done = { ...desired, beginning: { machine: "prod-cp-1", doneAt: "then" } };
    const world = madeWorld(desired);
    expect(world.balancer?.place.vmid).toBe(9002);
    expect(world.templates.map(({ place }) => place.vmid)).toEqual([9000, 9001]);
    expect(makeTrace(done, world).steps).toEqual([]);
    expect(driftOf(done, world).filter(({ machine }) => machine === "prod-lb")).toEqual([]);
  });

  test("it is told of other control planes when all else is done", () => {
    const before = madeWorld(withFront({ controlPlane: { count: 1 } }));
    const desired = { ...withFront(), beginning: { machine: "prod-cp-1", doneAt: "then" } };
    expect(driftOf(desired, before)).toContainEqual(
      expect.objectContaining({ machine: "prod-lb", kind: "settings" }),
    );
    const lock = readLock(tmpdir(), "nobody");
    const checks = (world: World) =>
      clusterStatus(desired, world, lock, undefined).checks.find(({ name }) => /load balancer/.test(name));
    expect(checks(before)).toMatchObject({ isFine: false, detail: "it knows others" });
    const { steps, world } = makeTrace(desired, before);
    expect(checks(world)).toMatchObject({ isFine: true, detail: "prod-lb" });
    expect(names(steps).slice(-3)).toEqual([
      "balancer.stop prod-lb",
      "balancer.change prod-lb",
      "balancer.start prod-lb",
    ]);
    const change = steps.find((step) => step.kind === "balancer.change");
    expect(change === undefined ? "" : stepText(change)).toContain(
      "behind it gpve-lb 6443 10.0.0.10:6443 -> gpve-lb 6443 10.0.0.10:6443 10.0.0.11:6443",
    );
    expect(makeTrace(desired, world).steps).toEqual([]);
  });

  test("a file that wants another endpoint deletes it in the end, and only it", () => {
    const world = madeWorld(withFront());
    const desired = { ...testDesired(), beginning: { machine: "prod-cp-1", doneAt: "then" } };
    const last = names(makeTrace(desired, world).steps).filter((name) => /balancer|delete/.test(name));
    expect(last).toEqual(["balancer.stop prod-lb", "balancer.delete prod-lb"]);
  });
});

describe("on a platform", () => {
  const clock = instantClock();
  let secrets: SecretsBundle;
  let world: FakeWorld;
  let folder: string;
  beforeAll(async () => {
    secrets = await testBundle();
  });
  beforeEach(() => {
    world = new FakeWorld();
    folder = mkdtempSync(join(tmpdir(), "gpve-talos-lb-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  const open = (file: object): OpenCluster => {
    const text = stringify({ ...(parse(minimalFile) as object), ...file });
    const cluster = parseCluster(text, "cluster.yaml");
    const lock = readLock(folder, cluster.metadata.name);
    const machines = machinesOf(cluster, lock.machines);
    return new OpenCluster({
      place: { file: "cluster.yaml", folder, text, cluster, lock, machines, patches: new Map() },
      secrets,
      secretsFile: join(folder, "secrets.enc.yaml"),
      drivers: new Map([["pve", world.driver(clock)]]),
      talos: world.talos,
      kubernetes: world.kubernetes,
      clock,
      journal: { append: () => undefined, lines: () => [] },
      prepareImage: async (url) => url,
      keepSnapshot: async (bytes) => ({ at: clock.now(), file: "1", sha256: String(bytes.length) }),
    });
  };

  const small = { ...front(), controlPlane: { count: 1 }, pools: [], protect: { destroy: false } };
  const other = { ...small, endpoint: { ...small.endpoint, port: 443 } };

  test("it is made, told anew, and destroyed with the cluster", async () => {
    expect((await open(small).apply()).findings).toEqual([]);
    expect(world.platform.guests.get(9099)).toMatchObject({ status: "running", config: { name: "prod-lb" } });
    const again = await open(other).apply();
    expect(again.findings).toEqual([]);
    expect(again.steps.map(stepName)).toContain("balancer.change prod-lb");
    expect(toldOf(world.platform.guests.get(9099)?.config["smbios1"])).toBe("gpve-lb 443 10.0.0.10:6443");
    expect((await open(other).apply()).steps).toEqual([]);
    await open(other).destroy();
    expect([...world.platform.guests.keys()]).toEqual([]);
  });

  test.each([
    ["the load balancer's", 9099],
    ["a control plane's", 2000],
  ])("somebody else's machine that took %s VMID at the last moment stays", async (_whose, vmid) => {
    await open(small).apply();
    const { platform } = world;
    const handle = platform.handle.bind(platform);
    let looks = 0;
    platform.handle = (verb, path, values) => {
      const guest = platform.guests.get(vmid);
      if (verb === "GET" && path.endsWith(`/${vmid}/config`) && ++looks > 1 && guest !== undefined)
        guest.config["smbios1"] = "uuid=0";
      return handle(verb, path, values);
    };
    await expect(open(small).destroy()).rejects.toMatchObject({ data: { finding: "vmid-taken" } });
    expect(platform.guests.has(vmid)).toBe(true);
  });

  test("before it is made, its image, VMID and address are looked at", async () => {
    const cluster = testCluster(front({ vm: { vmid: 777 } }));
    const machines = machinesOf(cluster);
    const driver = world.driver(clock);
    const known = {
      guest: {
        vmid: 777,
        name: "theirs",
        host: "pve1",
        isRunning: true,
        isTemplate: false,
        tags: [],
        memoryMiB: 1,
      },
      config: { ipconfig0: "ip=10.0.0.5/24" },
    };
    const third = { ...known, guest: { ...known.guest, vmid: 778 } };
    const { findings, absent } = await checkBalancer(cluster, machines, driver, [known, third]);
    expect(findings.map(({ id }) => id)).toEqual(["vmid-taken", "address-taken", "balancer-image-missing"]);
    expect(absent).toMatchObject([{ name: "prod-lb", addresses: ["10.0.0.5"] }]);
    driver.close();
  });
});
