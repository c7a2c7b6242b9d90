import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { readLock } from "../folder/lock-file.ts";
import { imageFile } from "../image/image-file.ts";
import { archiveUnpacker } from "../image/unpack-archive.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";

let folder: string;
let world: FakeWorld;
let secrets: SecretsBundle;
beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-image-"));
  world = new FakeWorld();
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function open(more: Readonly<Record<string, unknown>>) {
  return openedCluster(world, {
    folder,
    cluster: testCluster(more),
    secrets,
    unpackArchive: archiveUnpacker({ exec, fetch: () => Promise.reject(new Error("nothing is fetched")) }),
    keepSnapshot: () => Promise.reject(new Error("nothing is kept")),
  });
}

const iso = { image: { boot: "iso" } };
const drives = () => [...world.platform.guests.values()].map(({ config }) => config["ide0"]);
const bootOrders = () => new Set([...world.platform.guests.values()].map(({ config }) => config["boot"]));

test("machines boot from the ISO after their empty disk, install, and the ISO is taken out", async () => {
  const { findings, steps } = await open(iso).apply();
  expect(findings).toEqual([]);
  const { name } = imageFile(testCluster(iso), "amd64");
  expect(name).toMatch(/-nocloud-amd64\.iso$/);
  expect(world.platform.volumes).toContain(`local:iso/${name}`);
  expect(drives()).toEqual(Array.from({ length: 5 }, () => "none,media=cdrom"));
  expect(bootOrders()).toEqual(new Set(["order=scsi0;ide0"]));
  expect(steps.some(({ kind }) => kind === "guest.resize")).toBe(false);
  expect([...world.machines.values()].every(({ isInstalled }) => isInstalled)).toBe(true);
  const again = open(iso);
  expect((await again.apply()).steps).toEqual([]);
});

test("without its ISO a machine that was never installed does not come up", async () => {
  await open(iso).apply({ only: "infrastructure" });
  const [first] = [...world.platform.guests.values()];
  if (first === undefined) throw new Error("there is no guest");
  first.config["ide0"] = "none,media=cdrom";
  first.status = "stopped";
  await expect(open(iso).apply()).rejects.toMatchObject({ data: { finding: "machine-silent" } });
});

test.each([
  ["another disk is as large", { extraDisks: [{ gib: 80, storage: "local-lvm" }] }, {}],
  ["the disk has another size than the file says", {}, { disks: [60] }],
  ["there is no disk", {}, { disks: [] }],
])("nothing is installed when %s", async (_what, machine, seen) => {
  const more = { ...iso, pools: [{ name: "worker", count: 1, machine }] };
  await open(more).apply({ only: "infrastructure" });
  const worker = [...world.machines.values()].at(-1);
  Object.assign(worker ?? {}, seen);
  await expect(open(more).apply()).rejects.toMatchObject({
    data: { finding: "install-disk-unsure" },
  });
  expect(worker).toMatchObject({ isInstalled: false, config: undefined });
  expect(world.platform.done.filter((call) => call.startsWith("DELETE"))).toEqual([]);
});

const raw = Buffer.from("a disk");
const sha256 = (bytes: Buffer) => createHash("sha256").update(bytes).digest("hex");

test("the archive of a release is unpacked here, uploaded to every node and pinned", async () => {
  const path = join(folder, "nocloud-amd64.raw");
  writeFileSync(path, raw);
  await exec("xz", [path]);
  const image = { archive: "nocloud-{arch}.raw.xz", sha256: sha256(readFileSync(`${path}.xz`)) };
  const { findings } = await open({ image }).apply();
  expect(findings).toEqual([]);
  const { name, url } = imageFile(testCluster({ image }), "amd64");
  expect(url).toBe("nocloud-amd64.raw.xz");
  expect(name).toMatch(/^talos-v1\.13\.9-[0-9a-f]{12}-nocloud-amd64\.raw$/);
  expect(world.platform.uploads.get(name)).toBe("a disk");
  expect(world.platform.done.filter((call) => call.endsWith("/upload"))).toHaveLength(3);
  expect(readLock(folder, "prod").images).toEqual({ [name]: sha256(raw) });
  expect([...world.platform.guests.values()][0]?.config["scsi0"]).toContain(
    `import-from=local:import/${name}`,
  );
});

test("the file's checksum is that of its own image, and no other pool's", async () => {
  const pools = [{ name: "worker", count: 1, extensions: ["siderolabs/iscsi-tools"] }];
  const image = { sha256: "a".repeat(64) };
  const asked: (string | undefined)[] = [];
  const handle = world.platform.handle.bind(world.platform);
  world.platform.handle = (verb, path, values) => {
    if (path.endsWith("/download-url")) asked.push(values["checksum"]);
    return handle(verb, path, values);
  };
  await open({ image, pools }).apply({ only: "infrastructure" });
  expect(new Set(asked)).toEqual(new Set([image.sha256, undefined]));
  asked.length = 0;
  world.platform.volumes.length = 0;
  await open({ image }).apply({ only: "infrastructure" });
  expect(new Set(asked)).toEqual(new Set([image.sha256]));
});

test.each([
  ["another archive than the file pins", "image-changed", { sha256: "0".repeat(64) }],
  ["an archive that is broken", "image-broken", {}],
])("%s is %s, and nothing is uploaded", async (_what, finding, more) => {
  const packed = gzipSync(raw);
  writeFileSync(join(folder, "nocloud.raw.gz"), packed.subarray(0, packed.length - 9));
  const image = { archive: "nocloud.raw.gz", ...more };
  await expect(open({ image }).apply()).rejects.toMatchObject({ data: { finding } });
  expect(world.platform.done).toEqual([]);
});
