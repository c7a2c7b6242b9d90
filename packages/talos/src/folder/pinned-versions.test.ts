// What the file leaves open is decided once: neither another Talos nor another gpve moves contract or Kubernetes.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { preflight } from "../preflight/preflight.ts";
import { writeConfig } from "../config/config-text.ts";
import { machineConfig } from "../render/machine-config.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { minimalFile } from "../testing/test-cluster.ts";
import { clusterFolderOf } from "./cluster-folder.ts";
import { readLock, writeLock } from "./lock-file.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-pinned-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const written = (versions: string): string => minimalFile.replace("{ talos: v1.13.9 }", `{ ${versions} }`);
const open = (versions = "talos: v1.13.9") =>
  clusterFolderOf("cluster.yaml", written(versions), { env: {}, homeDir: folder, cwd: folder, now: 0 });
const pin = (contract: string, kubernetes?: string): void =>
  writeLock(folder, {
    version: 1,
    cluster: "prod",
    appliedAt: "2026-01-01T00:00:00Z",
    contract,
    ...given({ kubernetes }),
    machines: {},
  });

test("an upgrade of Talos moves neither the contract nor Kubernetes of a cluster that is there", () => {
  expect(open("talos: v1.14.0").cluster.versions).toMatchObject({ contract: "v1.14" });
  pin("v1.13", "v1.34.2");
  expect(open("talos: v1.14.0").cluster.versions).toEqual({
    talos: "v1.14.0",
    contract: "v1.13",
    kubernetes: "v1.34.2",
  });
});

test("what the file says holds, whatever is pinned", () => {
  pin("v1.13", "v1.34.2");
  const { versions } = open("talos: v1.13.9, contract: v1.12, kubernetes: v1.35.0").cluster;
  expect(versions).toEqual({ talos: "v1.13.9", contract: "v1.12", kubernetes: "v1.35.0" });
});

test("a lock from before Kubernetes was in it, and none, are as they were", () => {
  const { versions } = open().cluster;
  pin("v1.13");
  expect(open().cluster.versions).toEqual(versions);
});

test.each([
  [
    "talos: v1.14.0",
    "v1.13",
    "v1.30.1",
    "versions.kubernetes cannot be used: Talos v1.14 runs Kubernetes 1.32",
  ],
  ["talos: v1.12.0", "v1.13", "v1.34.2", "versions.contract is newer than Talos v1.12.0"],
])("%s beside what is pinned is refused with its line", (versions, contract, kubernetes, message) => {
  pin(contract, kubernetes);
  expect(() => open(versions)).toThrow(`cluster.yaml:4: ${message}`);
});

test("the file's own contract is told where it is another one, and is the cluster's once it is applied", async () => {
  const world = new FakeWorld();
  const secrets = await testBundle();
  const check = async (place: ReturnType<typeof open>) => {
    const driver = async () => world.driver(instantClock());
    const { findings } = await preflight({ ...place, openDriver: driver });
    return findings.filter(({ id }) => id === "contract-differs");
  };
  const apply = async (place: ReturnType<typeof open>) => {
    const { findings } = await openedCluster(world, { folder, secrets, cluster: place.cluster }).apply();
    expect(findings).toEqual([]);
  };
  expect(await check(open())).toEqual([]);
  await apply(open());
  expect(readLock(folder, "prod")).toMatchObject({ contract: "v1.13", kubernetes: "v1.36.3" });
  const older = open("talos: v1.13.9, contract: v1.12, kubernetes: v1.36.4");
  expect(await check(older)).toMatchObject([
    { severity: "warning", evidence: "made as v1.13, the file says v1.12" },
  ]);
  await apply(older);
  expect(readLock(folder, "prod")).toMatchObject({ contract: "v1.12", kubernetes: "v1.36.4" });
  const open13 = open();
  expect(await check(open13)).toEqual([]);
  expect(open13.cluster.versions).toEqual(older.cluster.versions);
});

test("configurations are written under the contract that is pinned", async () => {
  const secrets = await testBundle();
  const text = (place: ReturnType<typeof open>): string => {
    const [machine] = place.machines;
    return machine === undefined ? "" : writeConfig(machineConfig({ ...place, secrets }, machine).documents);
  };
  const before = text(open());
  pin("v1.13", "v1.36.3");
  expect(text(open("talos: v1.14.0")).replaceAll("v1.14.0", "v1.13.9")).toBe(before);
});
