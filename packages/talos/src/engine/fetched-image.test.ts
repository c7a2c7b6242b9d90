// Images that the platform fetches itself: read once from here, pinned before anybody relies on it, and held to from then on.
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { readLock } from "../folder/lock-file.ts";
import { imageFile } from "../image/image-file.ts";
import { heldImages, unpinnedImages } from "../image/image-pins.ts";
import { machinesOf } from "../cluster/machines.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { FakeWorld } from "../testing/fake-world.ts";
import { type Stage, openedCluster } from "../testing/opened-cluster.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import type { StepReport } from "./run-apply.ts";

let folder: string;
let world: FakeWorld;
let secrets: SecretsBundle;
/** What the factory has now, and how often it was read from here. */
let served: string;
let reads: number;
/** Of each request to fetch it: what the platform was told, and what the lock said then. */
let told: (readonly [string | undefined, string | undefined])[];

const cluster = testCluster();
const { name } = imageFile(cluster, "amd64");
const sum = (text: string) => createHash("sha256").update(text).digest("hex");

beforeAll(async () => {
  secrets = await testBundle();
});
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-fetched-"));
  world = new FakeWorld();
  reads = 0;
  told = [];
  factory("an image");
  const handle = world.platform.handle.bind(world.platform);
  world.platform.handle = (verb, path, values) => {
    if (path.endsWith("/download-url"))
      told.push([values["checksum"], readLock(folder, "prod").images?.[name]]);
    return handle(verb, path, values);
  };
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function factory(text: string): void {
  served = text;
  world.platform.served.set(name, text);
}

const open = (more: Partial<Stage> = {}) =>
  openedCluster(world, {
    folder,
    cluster,
    secrets,
    urlDigest: async ({ tell }) => {
      reads += 1;
      tell("read 1 of 1 MiB");
      return sum(served);
    },
    ...more,
  });
const unreadable = {
  urlDigest: () => Promise.reject(new Error("https://x cannot be read from here: no way")),
};
const lose = () => world.platform.volumes.splice(0);
const deeds = () => world.platform.done.filter((call) => !call.endsWith("/download-url"));
const lockOf = () => readLock(folder, "prod");

test("an image is read once from here, and pinned before a node is told to fetch exactly that", async () => {
  const notes: (string | undefined)[] = [];
  const report = ({ event, note }: StepReport) => event === "waiting" && notes.push(note);
  await open().apply({ only: "infrastructure", report });
  expect(told).toEqual(Array.from({ length: 3 }, () => [sum("an image"), sum("an image")]));
  expect(lockOf().images).toEqual({ [name]: sum("an image") });
  expect(notes).toContain("read 1 of 1 MiB");
  // Whoever comes later, and whoever only looks, reads nothing.
  const before = reads;
  lose();
  world.platform.guests.clear();
  const later = open();
  later.desired();
  await later.observe();
  await later.apply({ only: "infrastructure" });
  expect(reads).toBe(before);
  expect(told.at(-1)?.[0]).toBe(sum("an image"));
});

test("stopped after any line of the journal, the next run finds the pin or learns it", async () => {
  for (let line = 1; line < 8; line += 1) {
    world.platform.guests.clear();
    lose();
    rmSync(join(folder, ".deployer"), { recursive: true, force: true });
    let left = line;
    const journal = {
      append: () => {
        left -= 1;
        if (left === 0) throw new Error("killed");
      },
      lines: () => [],
    };
    await expect(open({ journal }).apply({ only: "infrastructure" })).rejects.toThrow("killed");
    await open().apply({ only: "infrastructure" });
    expect(lockOf().images, `line ${line}`).toEqual({ [name]: sum("an image") });
    expect(told.every(([asked, held]) => asked === sum("an image") && held === asked)).toBe(true);
    expect(world.platform.guests.size).toBe(5);
  }
});

test("an image that was built again is refused before the machine that is replaced goes", async () => {
  await open().apply();
  const before = deeds();
  const machines = [...world.platform.guests.keys()];
  lose();
  factory("the same image, built again");
  const opened = open();
  opened.change((lock) => ({ ...lock, replacing: ["prod-worker-1"] }));
  await expect(opened.apply()).rejects.toMatchObject({
    code: "object.conflict",
    message: expect.stringContaining(
      `with the SHA-256 ${sum("the same image, built again")}, and ${sum("an image")} is pinned`,
    ),
    data: { finding: "image-rebuilt" },
  });
  expect(deeds()).toEqual(before);
  expect([...world.platform.guests.keys()]).toEqual(machines);
  expect([...world.fakeKubernetes.nodes.values()].some(({ isCordoned }) => isCordoned)).toBe(false);
  expect(lockOf().images).toEqual({ [name]: sum("an image") });
  // Who accepts it goes on where he was.
  opened.change((lock) => ({ ...lock, images: { [name]: sum(served) } }));
  expect((await open().apply()).findings).toEqual([]);
  expect(lockOf().replacing).toEqual([]);
});

test("a template is made from what the first one was made from, or not at all", async () => {
  const templates = testCluster({ templates: { controlPlane: 998, worker: 999 } });
  await open({ cluster: templates }).apply({ only: "infrastructure" });
  const guests = world.platform.guests.size;
  lose();
  factory("another image");
  const more = testCluster({
    templates: { controlPlane: 998, worker: 999 },
    pools: [
      { name: "worker", count: 2 },
      { name: "big", count: 1, machine: { cores: 8, bios: "seabios" } },
    ],
  });
  await expect(open({ cluster: more }).apply({ only: "infrastructure" })).rejects.toMatchObject({
    data: { finding: "image-rebuilt" },
  });
  expect(world.platform.guests.size).toBe(guests);
});

test("another refusal of the platform is told as it is", async () => {
  world.platform.handle = (_verb, path) => {
    throw new Error(path);
  };
  await expect(open().apply({ only: "infrastructure" })).rejects.not.toMatchObject({
    data: { finding: "image-rebuilt" },
  });
});

test("what cannot be read from here is fetched unpinned, said so in the lock, and pinned once it can", async () => {
  const notes: (string | undefined)[] = [];
  const report = ({ note }: StepReport) => notes.push(note);
  await open(unreadable).apply({ only: "infrastructure", report });
  expect(told).toEqual(Array.from({ length: 3 }, () => [undefined, undefined]));
  const why = "https://x cannot be read from here: no way";
  expect(notes).toContain(`it is not pinned: ${why}`);
  expect(lockOf()).toMatchObject({ unpinned: { [name]: { at: expect.stringMatching(/^2026-/), why } } });
  expect(lockOf().images).toBeUndefined();
  const machines = machinesOf(cluster);
  expect(unpinnedImages(cluster, machines, lockOf())).toMatchObject([
    { id: "image-not-pinned", severity: "warning", subject: name, evidence: expect.stringContaining(why) },
  ]);
  // What the file says counts, whatever happened before.
  const said = testCluster({ image: { sha256: sum("an image") } });
  expect(unpinnedImages(said, machines, lockOf())).toEqual([]);
  expect(heldImages(said, machines, lockOf())).toMatchObject([{ name, heldBy: "file" }]);
  lose();
  world.platform.guests.clear();
  await open().apply({ only: "infrastructure" });
  expect(lockOf()).toMatchObject({ images: { [name]: sum("an image") }, unpinned: {} });
  expect(unpinnedImages(cluster, machines, lockOf())).toEqual([]);
  expect(heldImages(cluster, machines, lockOf())).toMatchObject([{ name, heldBy: "lock" }]);
});

test("whoever stops while an image is read leaves nothing unpinned", async () => {
  const stop = new AbortController();
  const urlDigest = async (): Promise<string> => {
    stop.abort(new Error("stopped"));
    throw new Error("aborted");
  };
  await expect(open({ urlDigest }).apply({ only: "infrastructure", signal: stop.signal })).rejects.toThrow(
    "stopped",
  );
  expect(told).toEqual([]);
  expect(lockOf().unpinned).toBeUndefined();
});
