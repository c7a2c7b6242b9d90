import { AppError } from "@gpve/contracts/errors.ts";
import { moveCollection, moveId, type GuestMove } from "@gpve/domain/guest/guest-move.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { expect, it } from "vitest";
import { moveReceiver } from "./receive-guests.ts";

const end = (node: string) => ({ node, address: "127.0.0.1", port: 1, fingerprints: [] });
const move: GuestMove = { vmid: 100, id: "m", from: end("n1"), to: end("n2"), at: 0 };

async function target() {
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), {
    prefix: "/gpve/",
    log: silentLogger,
  });
  const clock = new FakeClock();
  const reach = { problem: undefined as Error | undefined };
  const receiver = moveReceiver({
    records: () => {
      if (reach.problem !== undefined) throw reach.problem;
      return records;
    },
    clock,
    kinds: [],
  });
  return { records, clock, reach, receiver };
}
const unreachable = new AppError("store.unavailable", "no server is in reach");

it("waits for the note of a move, also while no server is in reach yet", async () => {
  const { records, clock, reach, receiver } = await target();
  reach.problem = unreachable;
  const found = receiver.find(100, "m");
  await clock.advance(1_000);
  reach.problem = undefined;
  await clock.advance(1_000);
  await records.transact((tx) => tx.put(moveCollection, moveId(100, "m"), move));
  await clock.advance(100);
  expect(await found).toEqual(move);
});

it("has its patience, and passes on what is no matter of time", async () => {
  const { clock, reach, receiver } = await target();
  const none = receiver.find(100, "x");
  await clock.advance(10_000);
  expect(await none).toBeUndefined();
  reach.problem = unreachable;
  const away = receiver.find(100, "m").catch((err: unknown) => err);
  await clock.advance(10_000);
  expect(await away).toBe(unreachable);
  reach.problem = new Error("oops");
  await expect(receiver.find(100, "m")).rejects.toThrow("oops");
});

it("takes only what it has a kind for", async () => {
  const { receiver } = await target();
  const offer = { type: "qemu", conf: "", isRunning: false, volumes: [] } as const;
  const { signal } = new AbortController();
  await expect(receiver.prepare(move, offer, signal)).rejects.toThrow("takes no guests of type qemu");
  expect(() => receiver.socketOf(move, "ram")).toThrow("nothing was prepared for guest 100");
});
