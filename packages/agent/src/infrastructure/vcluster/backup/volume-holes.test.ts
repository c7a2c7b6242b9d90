import { mkdirSync, mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { FileClusterSaves } from "./file-cluster-saves.ts";
import { FileVolumeParcels, ownVolumeFolders } from "./volume-parcels.ts";
import { requireNotHollow } from "./volume-holes.ts";

const VOLUMES = "vnodes/worker-1/kubelet/gpve-volumes";
const GIB = 2 ** 30;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-holes-"));
  const place = join(folder, "clusters/demo");
  for (const volume of ["pvc-1", "pvc-2"]) mkdirSync(join(place, VOLUMES, volume), { recursive: true });
  writeFileSync(join(place, "cluster.json"), "{}");
  writeFileSync(join(place, VOLUMES, "pvc-1/data"), "data");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const place = (): string => join(folder, "clusters/demo");
const judge = (): Promise<void> =>
  requireNotHollow(exec, place(), ownVolumeFolders(place()), AbortSignal.timeout(60_000));
const hollow = (path: string, bytes: number): void => {
  writeFileSync(path, "");
  truncateSync(path, bytes);
};

test("volumes of which most is nowhere are refused, by the name of the worst", async () => {
  await expect(judge()).resolves.toBeUndefined();
  hollow(join(place(), VOLUMES, "pvc-1/some"), 40 * GIB);
  await judge();
  hollow(join(place(), VOLUMES, "pvc-2/more"), 60 * GIB);
  await expect(judge()).rejects.toThrow(
    /pvc-2 of worker-1 has files of 644\d{8} bytes, of which 644\d{8} are holes/,
  );
  // Who may have as much may have it empty.
  mkdirSync(join(place(), "vnodes/worker-1/asked"));
  writeFileSync(join(place(), "vnodes/worker-1/asked/pvc-2"), String(100 * GIB));
  await expect(judge()).resolves.toBeUndefined();
});

test("no archive is made of them", async () => {
  hollow(join(place(), VOLUMES, "pvc-1/some"), 1_000 * GIB);
  const nothing = async (): Promise<never> => expect.unreachable();
  const saves = new FileClusterSaves({
    folder,
    exec,
    clock: systemClock,
    volumeStorage: nothing,
    withStore: nothing,
  });
  const cluster: KeptCluster = {
    name: "demo",
    tenant: "shop",
    spec: readVirtualClusterSpec({}),
    version: "1.36.4",
    phase: "Running",
    isWanted: true,
  };
  const work = { signal: AbortSignal.timeout(20_000), say: () => undefined };
  await expect(saves.pack(cluster, join(folder, "a.tar.gz"), work)).rejects.toThrow("are holes");
});

test("what links lead to is none of a volume's", async () => {
  hollow(join(folder, "outside"), 1_000 * GIB);
  symlinkSync(join(folder, "outside"), join(place(), VOLUMES, "pvc-1/link"));
  await expect(judge()).resolves.toBeUndefined();
});

test("another node sends none of that, and says why", async () => {
  hollow(join(place(), VOLUMES, "pvc-1/some"), 1_000 * GIB);
  const parcels = new FileVolumeParcels({ folder, exec, newId: () => "p" });
  await expect(parcels.pack("demo", AbortSignal.timeout(20_000))).rejects.toThrow("are holes");
});
