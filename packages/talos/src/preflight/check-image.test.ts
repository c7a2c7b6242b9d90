import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { imageFile } from "../image/image-file.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { checkOfflineImages, lackingImages } from "./check-image.ts";

const cluster = testCluster({ image: { offlineDir: "." } });
const machines = machinesOf(cluster);
const { name } = imageFile(cluster, "amd64");
const volume = `local:import/${name}`;

test("images are lacking where a node has none, and nowhere when nodes share them", () => {
  const of = (images: [string, string[]][], sharesImages: boolean) =>
    lackingImages(cluster, machines, { images: new Map(images), sharesImages });
  expect(of([["pve1", [volume]]], false)).toEqual([name]);
  expect(of([["pve1", [volume]]], true)).toEqual([]);
  const everywhere = ["pve1", "pve2", "pve3"].map((node): [string, string[]] => [node, [volume]]);
  expect(of(everywhere, false)).toEqual([]);
});

test("a file that is not in the offline directory is told before anything is touched", async () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-talos-images-"));
  expect(await checkOfflineImages(cluster, [name], folder)).toMatchObject([
    { id: "image-file-missing", severity: "error", subject: name },
  ]);
  writeFileSync(join(folder, name), "image");
  expect(await checkOfflineImages(cluster, [name], folder)).toEqual([]);
  expect(await checkOfflineImages(testCluster(), [name], "/nowhere")).toEqual([]);
  rmSync(folder, { recursive: true });
});
