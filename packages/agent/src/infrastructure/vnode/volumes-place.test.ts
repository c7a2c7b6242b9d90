import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { VnodeVolumes } from "./vnode-volumes.ts";
import { removeVolumes, settleVolumes, volumesBase, volumesFolder } from "./volumes-place.ts";

let folder: string;
const worker = () => join(folder, "vnodes", "worker-1");
const storage = () => join(folder, "storage");
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-volumes-"));
  mkdirSync(storage());
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("volumes are on the storage that is named, in a folder that is the worker's alone, and go with it", async () => {
  settleVolumes(worker(), "demo", storage());
  settleVolumes(worker(), "demo", storage());
  expect(readdirSync(storage())).toEqual([expect.stringMatching(/^demo-[0-9a-f-]{36}$/)]);
  const volumes = new VnodeVolumes(worker(), exec);
  await volumes.make("pvc-a", 100);
  expect([volumes.list(), volumes.bytes()]).toEqual([["pvc-a"], 100]);
  expect(volumesFolder(worker())).toBe(
    join(volumesBase(worker()) ?? "", "vnodes", "worker-1", "kubelet", "gpve-volumes"),
  );
  expect(existsSync(join(worker(), "kubelet"))).toBe(false);
  await volumes.remove("pvc-a");
  expect(volumes.list()).toEqual([]);
  removeVolumes(worker());
  expect(readdirSync(storage())).toEqual([]);
});

test("a worker that has volumes of its own keeps them there, and one without a storage has none elsewhere", async () => {
  const volumes = new VnodeVolumes(worker(), exec);
  await volumes.make("pvc-a", 100);
  settleVolumes(worker(), "demo", storage());
  expect([volumesBase(worker()), readdirSync(storage())]).toEqual([undefined, []]);
  removeVolumes(worker());
  expect(volumes.list()).toEqual(["pvc-a"]);
});

test("a storage that is not what it was is no worker without volumes", () => {
  settleVolumes(worker(), "demo", storage());
  rmSync(storage(), { recursive: true });
  mkdirSync(storage());
  expect(() => settleVolumes(worker(), "demo", storage())).toThrow("bring its storage back");
  expect(() => settleVolumes(worker(), "demo", undefined)).toThrow("bring its storage back");
});

test("what a worker that was replaced had stays on its storage, and is said", async () => {
  settleVolumes(worker(), "demo", storage());
  const volumes = new VnodeVolumes(worker(), exec);
  expect(volumes.putAside(join(folder, "left"))).toBeUndefined();
  await volumes.make("pvc-a", 100);
  const left = volumes.putAside(join(folder, "left")) ?? "";
  removeVolumes(worker());
  expect(readdirSync(left)).toEqual(["pvc-a"]);
  expect(left.startsWith(storage())).toBe(true);
});
