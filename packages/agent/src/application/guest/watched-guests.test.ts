import { expect, it } from "vitest";
import { guestCollection, guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { WatchedGuests } from "./watched-guests.ts";

it("keeps figures of this node's guests, and none of guests that are no more", async () => {
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: silentLogger,
  });
  await records.transact((tx) => {
    for (const [vmid, node] of [
      [100, "n1"],
      [101, "n1"],
      [102, "n2"],
    ] as const)
      tx.put(guestCollection, String(vmid), guestRecord({ vmid, type: "qemu", node, conf: "" }));
  });
  const stop = new AbortController();
  let kept: unknown;
  let pruned: readonly boolean[] = [];
  const row = (cpu: number): readonly GuestRuntime[] => [{ vmid: 100, cpu } as GuestRuntime];
  const guests = new WatchedGuests({
    node: "n1",
    samplers: [
      { askGuests: async () => undefined, sample: () => row(1), rows: () => row(2), running: () => "100:1" },
    ],
    records: () => records,
    statistics: {
      sample: (at, running, known) => (kept = [at, running, known.map(({ vmid }) => vmid)]),
      prune: (exists) => {
        pruned = [100, 102, 103].map(exists);
        stop.abort();
      },
    },
    observe: () => undefined,
    clock: new FakeClock(7),
    log: silentLogger,
    everyMs: 1,
  });
  expect(guests.sampled(100)).toBeUndefined();
  await guests.run(stop.signal);
  expect(kept).toEqual([7, row(1), [100, 101]]);
  expect(pruned).toEqual([true, true, false]);
  expect(guests.sampled(100)?.cpu).toBe(1);
  expect(guests.rows()).toEqual(row(2));
  expect([guests.sampled(100)?.cpu, guests.sampled(101), guests.running()]).toEqual([2, undefined, "100:1"]);
  await records.close();
});
