import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { readLock } from "../folder/lock-file.ts";
import { imageFile } from "../image/image-file.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { instantClock } from "../testing/instant-clock.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { OpenCluster } from "./open-cluster.ts";

let folder: string;
let world: FakeWorld;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-offline-"));
  world = new FakeWorld();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const { name } = imageFile(testCluster(), "amd64");
const sha256 = (text: string) => createHash("sha256").update(text).digest("hex");
const put = (file: string, text: string) => writeFileSync(join(folder, file), text);

async function apply(image: object = {}): Promise<readonly string[]> {
  const cluster = testCluster({ image: { offlineDir: ".", ...image } });
  const lock = readLock(folder, "prod");
  const machines = machinesOf(cluster, lock.machines);
  const clock = instantClock();
  const opened = new OpenCluster({
    place: { file: "cluster.yaml", folder, text: "", cluster, lock, machines, patches: new Map() },
    secrets: await testBundle(),
    secretsFile: join(folder, "secrets.enc.yaml"),
    drivers: new Map([["pve", world.driver(clock)]]),
    talos: world.talos,
    kubernetes: world.kubernetes,
    clock,
    journal: { append: () => undefined, lines: () => [] },
    prepareImage: () => Promise.reject(new Error("nothing is fetched")),
    keepSnapshot: () => Promise.reject(new Error("nothing is kept")),
  });
  await opened.apply({ only: "infrastructure" });
  return world.platform.done;
}

test("an image of the offline directory is uploaded to each node and pinned", async () => {
  put(name, "the image");
  const done = await apply();
  expect(done.filter((call) => call.endsWith("/upload"))).toHaveLength(3);
  expect(done.some((call) => call.includes("download-url"))).toBe(false);
  expect(world.platform.uploads.get(name)).toBe("the image");
  expect(world.platform.guests.size).toBe(5);
  expect(readLock(folder, "prod").images).toEqual({ [name]: sha256("the image") });
});

test("a file that was changed since is refused, and nothing is made of it", async () => {
  put(name, "the image");
  await apply();
  world = new FakeWorld();
  put(name, "another image");
  await expect(apply()).rejects.toMatchObject({ data: { finding: "image-changed" } });
  expect(world.platform.done).toEqual([]);
  expect(readLock(folder, "prod").images).toEqual({ [name]: sha256("the image") });
});

test("the file's own checksum counts before the first use", async () => {
  put(name, "the image");
  await expect(apply({ sha256: sha256("other") })).rejects.toMatchObject({
    data: { finding: "image-changed" },
  });
  expect(world.platform.done).toEqual([]);
  expect(readLock(folder, "prod").images).toBeUndefined();
});

test.each([
  ["nothing", {}, /there is no talos-\S+ in \S+$/],
  ["another form of it", { "nocloud-amd64.raw.xz": "x" }, /only nocloud-amd64\.raw\.xz$/],
  ["an empty file", { [name]: "" }, /is empty$/],
])("with %s in the directory nothing is uploaded", async (_what, files, message) => {
  for (const [file, text] of Object.entries(files)) put(file, text);
  await expect(apply()).rejects.toMatchObject({
    message: expect.stringMatching(message),
    data: { finding: "image-file-missing" },
  });
  expect(world.platform.done).toEqual([]);
});

test("a directory that is not there is told", async () => {
  await expect(apply({ offlineDir: "/nowhere/images" })).rejects.toThrow(
    "there is no folder for /nowhere/images/",
  );
  expect(world.platform.done).toEqual([]);
});
