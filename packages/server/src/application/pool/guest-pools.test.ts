import { goneGuestCollection, guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { backupJobCollection } from "@gpve/domain/backup/backup-job.ts";
import { leftBackupCollection } from "@gpve/domain/backup/left-backups.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { resourceCollection, ruleCollection } from "@gpve/domain/ha/collections.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { expect, it, vi } from "vitest";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { backupRunCollection } from "../backup-job/backup-runs.ts";
import { removeQuotasOf } from "../quota/quota-records.ts";
import { keepGuestPools } from "./guest-pools.ts";

it("puts new guests into their pools and takes those that are gone out again", async () => {
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: silentLogger,
  });
  const guests = records.collection(guestCollection);
  const guest = (vmid: number, wantedPool: string) =>
    guestRecord({ vmid, type: "qemu", node: "n1", conf: "name: a\n", wantedPool });
  await records.transact((tx) => {
    tx.put(poolsDef, "prod", { poolid: "prod", vms: [], storage: [] });
    tx.put(guestCollection, "100", guest(100, "prod"));
  });
  const stop = keepGuestPools({ records, clock: new FakeClock(), log: silentLogger });
  await records.transact((tx) => tx.put(guestCollection, "101", guest(101, "prod")));
  await records.transact((tx) => tx.put(guestCollection, "102", guest(102, "gone")));
  await vi.waitFor(
    () => {
      expect(guests.list().map(({ value }) => value.wantedPool)).toEqual([undefined, undefined, undefined]);
    },
    { timeout: 30_000 },
  );
  const members = (): readonly number[] | undefined => records.collection(poolsDef).get("prod")?.value.vms;
  expect(members()).toEqual([100, 101]);
  await records.transact((tx) => tx.delete(guestCollection, "100"));
  await vi.waitFor(() => expect(members()).toEqual([101]), { timeout: 30_000 });
  stop();
  // Deleted, and then the server went down before it could do its part.
  await records.transact((tx) => {
    tx.delete(guestCollection, "101");
    tx.put(goneGuestCollection, "101", { vmid: 101 });
  });
  expect(members()).toEqual([101]);
  const stopAgain = keepGuestPools({ records, clock: new FakeClock(), log: silentLogger });
  await vi.waitFor(() => expect(members()).toEqual([]), { timeout: 30_000 });
  expect(records.collection(goneGuestCollection).list()).toEqual([]);
  // Created again before anyone looked: what it has is its own.
  await records.transact((tx) => {
    tx.put(poolsDef, "prod", { poolid: "prod", vms: [102], storage: [] });
    tx.put(goneGuestCollection, "102", { vmid: 102 });
  });
  await vi.waitFor(() => expect(records.collection(goneGuestCollection).list()).toEqual([]), {
    timeout: 30_000,
  });
  expect(members()).toEqual([102]);
  stopAgain();
  await records.close();
});

it("takes a guest that is purged out of the backup jobs, and only such a one", async () => {
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: silentLogger,
  });
  const job = (id: string, options: Record<string, string | boolean>) => ({ id, options, since: 0 });
  await records.transact((tx) => {
    tx.put(backupJobCollection, "alone", job("alone", { vmid: "100" }));
    tx.put(backupJobCollection, "both", job("both", { vmid: "100,1001" }));
    tx.put(backupJobCollection, "rest", job("rest", { all: true, exclude: "100" }));
    tx.put(backupJobCollection, "most", job("most", { all: true, exclude: "100,7" }));
    tx.put(backupJobCollection, "pool", job("pool", { pool: "prod" }));
  });
  const jobs = () =>
    Object.fromEntries(
      records
        .collection(backupJobCollection)
        .list()
        .map(({ id, value }) => [id, value.options]),
    );
  const before = jobs();
  const stop = keepGuestPools({ records, clock: new FakeClock(), log: silentLogger });
  const gone = records.collection(goneGuestCollection);
  await records.transact((tx) => tx.put(goneGuestCollection, "100", { vmid: 100 }));
  await vi.waitFor(() => expect(gone.list()).toEqual([]), { timeout: 30_000 });
  expect(jobs()).toEqual(before);
  await records.transact((tx) => tx.put(goneGuestCollection, "100", { vmid: 100, purge: true }));
  await vi.waitFor(() => expect(gone.list()).toEqual([]), { timeout: 30_000 });
  expect(jobs()).toEqual({
    both: { vmid: "1001" },
    rest: { all: true },
    most: { all: true, exclude: "7" },
    pool: { pool: "prod" },
  });
  expect(records.collection(backupRunCollection).list()).toEqual([]);
  stop();
  await records.close();
});

it("takes a guest that is gone out of HA, with its part of the rules", async () => {
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: silentLogger,
  });
  const plain = {
    state: "started",
    maxRestart: 1,
    maxRelocate: 1,
    failback: true,
    autoRebalance: true,
  } as const;
  const rule = (id: string, ...resources: readonly string[]) =>
    ({ rule: id, type: "resource-affinity", affinity: "negative", resources, order: 1 }) as const;
  await records.transact((tx) => {
    for (const sid of ["vm:100", "vm:101"]) tx.put(resourceCollection, sid, { sid, ...plain });
    tx.put(ruleCollection, "both", rule("both", "vm:100", "vm:101"));
    tx.put(ruleCollection, "alone", rule("alone", "vm:100"));
    tx.put(goneGuestCollection, "100", { vmid: 100 });
  });
  const stop = keepGuestPools({ records, clock: new FakeClock(), log: silentLogger });
  const gone = records.collection(goneGuestCollection);
  await vi.waitFor(() => expect(gone.list()).toEqual([]), { timeout: 30_000 });
  expect(
    records
      .collection(resourceCollection)
      .list()
      .map(({ id }) => id),
  ).toEqual(["vm:101"]);
  expect(
    records
      .collection(ruleCollection)
      .list()
      .map(({ value }) => value.resources),
  ).toEqual([["vm:101"]]);
  stop();
  await records.close();
});

it("notes whose the backups of a guest were, once, and forgets them with the pool", async () => {
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: silentLogger,
  });
  const left = { type: "qemu", node: "n1", backups: 2 } as const;
  await records.transact((tx) => {
    tx.put(poolsDef, "prod", { poolid: "prod", vms: [100, 101], storage: [] });
    for (const vmid of [100, 101, 102]) tx.put(goneGuestCollection, String(vmid), { vmid, left });
    tx.put(goneGuestCollection, "101", { vmid: 101 });
  });
  const clock = new FakeClock();
  const stops = [1, 2].map(() => keepGuestPools({ records, clock, log: silentLogger }));
  await vi.waitFor(() => expect(records.collection(goneGuestCollection).list()).toEqual([]), {
    timeout: 30_000,
  });
  const until = Math.floor(clock.now() / 1000);
  const notes = records.collection(leftBackupCollection);
  // 101 had none, 102 was in no pool.
  expect(notes.list().map(({ value }) => value)).toEqual([
    { ...left, vmid: 100, pool: "prod", until },
    { ...left, vmid: 102, pool: "", until },
  ]);
  await records.transact((tx) => removeQuotasOf(tx, "other"));
  expect(notes.list()).toHaveLength(2);
  await records.transact((tx) => removeQuotasOf(tx, "prod"));
  expect(notes.list()).toMatchObject([{ value: { vmid: 102 } }]);
  stops.forEach((stop) => stop());
  await records.close();
});
