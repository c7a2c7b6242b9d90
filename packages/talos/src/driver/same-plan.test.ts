// One file, three ways to the platform: the same plan, and the same guests in the end.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeTransport } from "@gpve/client/testing/fake-api.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Cluster } from "../cluster/cluster.ts";
import { machinesOf } from "../cluster/machines.ts";
import { unknownDesired } from "../engine/desired.ts";
import { guestsWorld } from "../engine/observe/look-at-guests.ts";
import { makeTrace } from "../engine/make-trace.ts";
import type { Step } from "../plan/plan-steps.ts";
import { stepCommand, stepText } from "../plan/step-text.ts";
import { preflight } from "../preflight/preflight.ts";
import { DEPLOYER_PRIVILEGES, fakePvesh, FakePlatform, PlatformApi } from "../testing/fake-platform.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testCluster } from "../testing/test-cluster.ts";
import type { Driver } from "./driver.ts";
import { openDriver } from "./open-driver.ts";
import { PveDriver } from "./pve-driver.ts";
import { PveshCalls } from "./pvesh-calls.ts";

const types = ["gpve", "pve-api", "qm"] as const;
type DriverType = (typeof types)[number];

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-same-"));
  writeFileSync(join(folder, "token"), "deployer@pve!talos=1", { mode: 0o600 });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Everything alike but how the platform is reached. */
function clusterOf(type: DriverType): Cluster {
  const access = type === "qm" ? {} : { endpoint: "https://10.0.0.2:8006", tokenRef: { file: "token" } };
  return testCluster({
    providers: [
      {
        name: "pve",
        type,
        ...access,
        nodes: ["pve1", "pve2", "pve3"],
        storage: { image: "local", vm: "local-lvm", efi: "local-lvm", cloudinit: "local-lvm" },
      },
    ],
    pools: [{ name: "worker", count: 3 }],
  });
}

/** As the command opens it; only what is at the other end is a fake. */
async function driverOf(type: DriverType, cluster: Cluster, platform: FakePlatform): Promise<Driver> {
  if (type === "qm") return new PveDriver("pve", new PveshCalls(fakePvesh(platform)));
  const [provider] = cluster.providers;
  if (provider === undefined) throw new Error("no provider");
  return openDriver(provider, {
    connect: () => new FakeTransport(new PlatformApi(platform)),
    clock: instantClock(),
    folder,
    keys: { env: {}, homeDir: folder },
  });
}

async function planned(type: DriverType, platform: FakePlatform) {
  const cluster = clusterOf(type);
  const machines = machinesOf(cluster);
  const { findings, observed } = await preflight({
    cluster,
    machines,
    folder,
    openDriver: () => driverOf(type, cluster, platform),
  });
  const desired = unknownDesired({ cluster, machines });
  const { steps, findings: stops } = makeTrace(desired, guestsWorld(cluster, machines, observed, 0));
  return {
    findings: [...findings, ...stops].map(({ id, severity }) => ({ id, severity })),
    steps,
    texts: steps.map(stepText),
    commands: steps.map((step) => stepCommand(step)),
  };
}

function platformWith(): FakePlatform {
  const platform = new FakePlatform();
  // On the host he is root, who may make accounts of add-ons too.
  const ofAccounts = ["Sys.Modify", "Realm.AllocateUser", "User.Modify", "Permissions.Modify"];
  platform.privileges = () => [...DEPLOYER_PRIVILEGES, ...ofAccounts];
  return platform;
}

/** What the engine does with a platform's steps. */
async function make(driver: Driver, step: Step): Promise<void> {
  if (step.kind === "image.ensure")
    return driver.downloadImage(step.host, step.storage, {
      name: step.subject,
      content: step.content,
      url: step.url,
    });
  if (step.kind === "guest.create") return driver.createGuest(step.place, step.config);
  if (step.kind === "guest.resize") return driver.resizeDisk(step.place, step.disk, step.gib);
  return step.kind === "guest.start" ? driver.start(step.place) : undefined;
}

test("the same file gives the same plan and the same guests by gpve, pve-api and qm", async () => {
  const plans = [];
  const made = [];
  const again = [];
  for (const type of types) {
    const platform = platformWith();
    const plan = await planned(type, platform);
    expect(platform.done).toEqual([]);
    const driver = await driverOf(type, clusterOf(type), platform);
    for (const step of plan.steps) await make(driver, step);
    driver.close();
    plans.push(plan);
    made.push({ guests: [...platform.guests], volumes: platform.volumes, done: platform.done });
    again.push(await planned(type, platform));
  }
  const [first] = plans;
  expect(first?.findings.filter(({ severity }) => severity === "error")).toEqual([]);
  expect(first?.texts.filter((text) => text.startsWith("+ create"))).toHaveLength(6);
  for (const plan of plans) expect(plan).toEqual(first);
  expect(made[0]?.guests).toHaveLength(6);
  for (const each of made) expect(each).toEqual(made[0]);
  // What was made is known again, and nothing is left for the platform to do.
  for (const each of again) {
    expect(each).toEqual(again[0]);
    expect(each.steps.filter(({ kind }) => kind.startsWith("guest.") || kind === "image.ensure")).toEqual([]);
  }
});
