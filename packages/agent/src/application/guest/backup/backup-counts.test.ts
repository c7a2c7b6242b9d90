import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { afterEach, beforeEach, expect, it } from "vitest";
import { clusterBackupCollection } from "@gpve/domain/backup/cluster-backups.ts";
import { leftBackupCollection, seenBackupCollection } from "@gpve/domain/backup/left-backups.ts";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { removeVolumeOperation } from "../../storage/remove-volume.ts";
import { StorageWorld } from "../../../testing/storage-world.ts";
import { memoryRecords } from "../../../testing/vm-world.ts";
import { BackupCounts } from "./backup-counts.ts";

let world: StorageWorld;
let records: Records;
let counts: BackupCounts;
const archive = (vmid: number, day: number): string =>
  `dump/vzdump-qemu-${vmid}-2026_01_0${day}-00_00_00.vma`;
const noted = (vmid: number): number | undefined =>
  records.collection(guestCollection).get(String(vmid))?.value.backups;

beforeEach(async () => {
  world = new StorageWorld();
  records = await memoryRecords();
  counts = new BackupCounts({
    node: "n1",
    records: () => records,
    storages: world.storages,
    log: silentLogger,
  });
  await records.transact((tx) => {
    for (const [vmid, node] of [
      [100, "n1"],
      [101, "n1"],
      [102, "n2"],
    ] as const)
      tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node, conf: "cores: 1\n" }));
  });
  for (const [vmid, day] of [
    [100, 1],
    [100, 2],
    [102, 1],
  ] as const)
    world.put(archive(vmid, day));
  world.put("dump/vzdump-lxc-100-2026_01_01-00_00_00.tar.zst");
  world.put("dump/vzdump-qemu-100-2026_01_01-00_00_00.log");
});
afterEach(() => {
  world.remove();
});

it("counts archives of this node's guests, of their kind, and nobody else's", async () => {
  await counts.recount();
  expect([noted(100), noted(101), noted(102)]).toEqual([2, undefined, undefined]);
  expect(records.collection(guestCollection).get("100")?.value.conf).toBe("cores: 1\n");
  world.put(archive(101, 3));
  rmSync(`${world.root}/local/${archive(100, 1)}`);
  // Whoever asks meanwhile is counted after what came before.
  await Promise.all([counts.recount(), counts.recount()]);
  expect([noted(100), noted(101)]).toEqual([1, 1]);
});

it("forgets nothing of a storage that is away", async () => {
  await counts.recount();
  world.define("away", { path: "/proc/self/nothing", content: "backup", mkdir: false });
  rmSync(`${world.root}/local/${archive(100, 1)}`);
  await counts.recount();
  expect(noted(100)).toBe(2);
  world.definitions = world.definitions.filter(({ storage }) => storage !== "away");
  await counts.recount();
  expect(noted(100)).toBe(1);
});

it("forgets nothing of a storage that was switched off, and still counts what others lose", async () => {
  const isOld = ({ storage }: { readonly storage: string }): boolean => storage === "old";
  world.define("old", { content: "backup" });
  const cluster = "dump/vzdump-vc-demo_shop=web-2026_01_05-00_00_00.tar.gz";
  world.put(cluster);
  mkdirSync(`${world.root}/old/dump`, { recursive: true });
  for (const name of [archive(101, 5), cluster]) writeFileSync(`${world.root}/old/${name}`, "x");
  const clusters = () =>
    records
      .collection(clusterBackupCollection("n1"))
      .list()
      .map(({ value }) => value);
  const demo = { name: "demo", tenant: "shop/web" };
  await counts.recount();
  expect([noted(100), noted(101)]).toEqual([2, 1]);
  expect(clusters()).toEqual([{ ...demo, counts: { "local@n1": 1, "old@n1": 1 } }]);
  world.definitions = world.definitions.filter((each) => !isOld(each));
  world.define("old", { content: "backup", disable: true });
  rmSync(`${world.root}/local/${archive(100, 1)}`);
  rmSync(`${world.root}/local/${cluster}`);
  await counts.recount();
  expect([noted(100), noted(101)]).toEqual([1, 1]);
  expect(clusters()).toEqual([{ ...demo, counts: { "old@n1": 1 } }]);
  // A process that began meanwhile has never seen it.
  const later = new BackupCounts({
    node: "n1",
    records: () => records,
    storages: world.storages,
    log: silentLogger,
  });
  await later.recount();
  expect([noted(100), noted(101)]).toEqual([1, 1]);
  expect(clusters()).toEqual([{ ...demo, counts: { "old@n1": 1 } }]);
  world.definitions = world.definitions.filter((each) => !isOld(each));
  await later.recount();
  expect([noted(100), noted(101), clusters()]).toEqual([1, undefined, []]);
});

it("has counted before the task of who removes one ends, also where it fails", async () => {
  await counts.recount();
  const { engine } = testEngine();
  engine.register(counts.counting(removeVolumeOperation(world.storages)));
  engine.register(
    counts.counting({
      type: "fails",
      steps: [
        {
          name: "only",
          run: () => {
            world.put(archive(101, 7));
            throw new Error("afterwards");
          },
        },
      ],
    }),
  );
  await engine.start();
  const remove = { volid: `local:backup/${archive(100, 2).slice("dump/".length)}` };
  const { upid } = await engine.submit({ type: "imgdel", resources: [], args: remove, actor: "root@pam" });
  expect((await engine.wait(upid)).exitStatus).toBe("OK");
  expect(noted(100)).toBe(1);
  const failed = await engine.submit({ type: "fails", resources: [], args: {}, actor: "root@pam" });
  await engine.wait(failed.upid);
  expect(noted(101)).toBe(1);
  await engine.stop();
});

it("looks again from time to time, until it is told to stop", async () => {
  const clock = new FakeClock(0);
  const stop = new AbortController();
  const running = counts.run(clock, stop.signal);
  await expect.poll(() => noted(100)).toBe(2);
  rmSync(`${world.root}/local/${archive(100, 1)}`);
  await expect
    .poll(async () => {
      await clock.advance(60_000);
      return noted(100);
    })
    .toBe(1);
  stop.abort();
  await clock.advance(60_000);
  await running;
});

it("counts those of a guest that is gone apart from those of the next one with its id", async () => {
  const seconds = (day: number): number => Date.parse(`2026-01-0${day}T12:00:00Z`) / 1000;
  const left = { type: "qemu", vmid: 100, pool: "web", backups: 9 } as const;
  const [first, second, others] = ["qemu-100-1", "qemu-100-2", "qemu-102-2"];
  await records.transact((tx) => {
    tx.put(leftBackupCollection, second, { ...left, node: "n1", until: seconds(2) });
    tx.put(leftBackupCollection, first, { ...left, node: "n1", until: seconds(1) });
    tx.put(leftBackupCollection, others, { ...left, vmid: 102, node: "n2", until: seconds(2) });
  });
  world.put(archive(100, 4));
  const seen = (): readonly (readonly [string, number])[] =>
    records
      .collection(seenBackupCollection("n1"))
      .list()
      .map(({ id, value }) => [id, value.backups] as const);
  await counts.recount();
  expect(noted(100)).toBe(1);
  expect(seen()).toEqual([
    [first, 1],
    [second, 1],
  ]);
  rmSync(`${world.root}/local/${archive(100, 1)}`);
  await counts.recount();
  expect(seen()).toEqual([
    [first, 0],
    [second, 1],
  ]);
  // A server saw that nothing is left.
  await records.transact((tx) => tx.delete(leftBackupCollection, first));
  world.define("away", { path: "/proc/self/nothing", content: "backup", mkdir: false });
  rmSync(`${world.root}/local/${archive(100, 2)}`);
  await counts.recount();
  expect(seen()).toEqual([[second, 1]]);
  expect(noted(100)).toBe(1);
});
