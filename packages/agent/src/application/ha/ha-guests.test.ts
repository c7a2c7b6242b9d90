import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import { resourceCollection } from "@gpve/domain/ha/collections.ts";
import { newStorageDefinition, storageCollection } from "@gpve/domain/storage/definition.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { expect, test } from "vitest";
import { HaGuests } from "./ha-guests.ts";

test("guests are known by their records, those without one by their number", async () => {
  const log = silentLogger;
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), { prefix: "/gpve/", log });
  const guests = new HaGuests(() => records, "n1");
  expect([guests.sidOf(7), guests.isHere(7), guests.areUnmanaged()]).toEqual(["vm:7", false, true]);
  const resource = {
    sid: "vm:100",
    state: "started",
    maxRestart: 1,
    maxRelocate: 1,
    failback: true,
    autoRebalance: true,
  } as const;
  const conf = "scsi0: only:100/vm-100-disk-0.raw,size=1G\n";
  await records.transact((tx) => {
    tx.put(guestCollection, "7", guestRecord({ vmid: 7, type: "lxc", node: "n2", conf: "" }));
    tx.put(guestCollection, "100", guestRecord({ vmid: 100, type: "qemu", node: "n1", conf }));
    const only = newStorageDefinition("only", "dir", { path: "/only", content: "images", shared: 0 });
    tx.put(storageCollection, "only", only);
    tx.put(resourceCollection, "vm:100", resource);
  });
  expect([guests.sidOf(7), guests.isHere(7)]).toEqual(["ct:7", false]);
  expect([guests.sidOf(100), guests.isHere(100)]).toEqual(["vm:100", true]);
  expect(guests.notMovable(100, "n2")).toContain("only");
  expect(guests.areUnmanaged()).toBe(false);
  await records.close();
});
