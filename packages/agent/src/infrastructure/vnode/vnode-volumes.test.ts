import { existsSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { VnodeVolumes } from "./vnode-volumes.ts";

let place: string;
beforeEach(() => {
  place = mkdtempSync(join(tmpdir(), "gpve-volumes-"));
});
afterEach(() => rmSync(place, { recursive: true, force: true }));

test("volumes of a worker are folders that any container may write, counted by what was asked for", async () => {
  const volumes = new VnodeVolumes(place, exec);
  expect([volumes.list(), volumes.bytes()]).toEqual([[], 0]);
  await volumes.make("pvc-a", 100);
  await volumes.make("pvc-b", 20);
  await volumes.make("pvc-a", 5);
  expect([volumes.list(), volumes.bytes()]).toEqual([["pvc-a", "pvc-b"], 120]);
  expect(statSync(join(place, "kubelet/gpve-volumes/pvc-a")).mode & 0o777).toBe(0o777);
});

test("volumes that a machine has on its own disk are counted, and no folders of the node", async () => {
  const volumes = new VnodeVolumes(place, exec);
  volumes.ask("pvc-a", 100);
  expect([volumes.list(), volumes.asked(), volumes.bytes()]).toEqual([["pvc-a"], ["pvc-a"], 100]);
  expect([existsSync(join(place, "kubelet")), volumes.putAside(join(place, "left"))]).toEqual([
    false,
    undefined,
  ]);
  await volumes.remove("pvc-a");
  expect([volumes.list(), volumes.bytes()]).toEqual([[], 0]);
});

test("what goes with a volume is what is in it, and nothing that it points to", async () => {
  const volumes = new VnodeVolumes(place, exec);
  await volumes.make("pvc-a", 100);
  writeFileSync(join(place, "kept"), "x");
  symlinkSync(place, join(place, "kubelet/gpve-volumes/pvc-a/link"));
  await volumes.remove("pvc-a");
  await volumes.remove("pvc-never");
  expect([volumes.list(), volumes.bytes(), existsSync(join(place, "kept"))]).toEqual([[], 0, true]);
});

test("volumes of a worker that lives on elsewhere are put aside, where there are any", async () => {
  const volumes = new VnodeVolumes(place, exec);
  const left = join(place, "left", "worker-1");
  expect([volumes.putAside(left), existsSync(left)]).toEqual([undefined, false]);
  await volumes.make("pvc-a", 100);
  writeFileSync(join(place, "kubelet/gpve-volumes/pvc-a/note"), "x");
  expect(volumes.putAside(left)).toBe(left);
  expect([existsSync(join(left, "pvc-a/note")), volumes.list()]).toEqual([true, []]);
});
