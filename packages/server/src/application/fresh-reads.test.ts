import { AppError } from "@gpve/contracts/errors.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { freshReads, ownedStore, readableRecords } from "./fresh-reads.ts";

const signal = new AbortController().signal;

function fixture() {
  const said: string[] = [];
  const clock = new FakeClock();
  let asked = 0;
  let answer: () => Promise<void> = async () => undefined;
  const reads = freshReads({
    records: {
      fresh: () => {
        asked++;
        return answer();
      },
    },
    clock,
    log: { warn: (_fields, message) => said.push(message), info: (_fields, message) => said.push(message) },
  });
  return {
    ...reads,
    reads,
    clock,
    said,
    asked: () => asked,
    store: (next: typeof answer) => (answer = next),
  };
}

test("asks the store before every read while it answers", async () => {
  const { fresh, asked, said } = fixture();
  await fresh(signal);
  await fresh(signal);
  expect(asked()).toBe(2);
  expect(said).toEqual([]);
});

test("reads go on from memory while the store is away, and say so once", async () => {
  const { fresh, answers, clock, asked, said, store } = fixture();
  store(() => Promise.reject(new AppError("store.unavailable", "no endpoint answers")));
  await fresh(signal);
  await fresh(signal);
  expect(asked()).toBe(1);
  await clock.advance(5_000);
  await fresh(signal);
  expect(asked()).toBe(2);
  expect(said).toEqual(["the store does not answer: reads show what this server last knew"]);
  expect(answers()).toBe(false);
  store(async () => undefined);
  await clock.advance(5_000);
  await fresh(signal);
  expect(said.at(-1)).toBe("the store answers again: reads are up to date");
  expect(answers()).toBe(true);
  await fresh(signal);
  expect(asked()).toBe(4);
});

test("says how old what is read is, and reads on where the records would refuse", async () => {
  const { fresh, ageSeconds, clock, reads, store } = fixture();
  await fresh(signal);
  expect(ageSeconds()).toBeUndefined();
  await clock.advance(10_000);
  store(() => Promise.reject(new AppError("store.unavailable", "no leader")));
  const log = { warn: () => undefined, info: () => undefined, error: () => undefined };
  const records = await openRecords(openSqliteStore({ path: ":memory:" }), { prefix: "/gpve/", log });
  const readable = readableRecords(records, reads);
  await readable.fresh();
  await readable.fresh({ signal });
  await clock.advance(2_500);
  expect(ageSeconds()).toBe(13);
  expect(await readable.transact(() => readable.revision())).toBe(records.revision());
  await records.close();
  expect([ownedStore.ageSeconds(), ownedStore.answers()]).toEqual([undefined, true]);
});

test("asks by itself while nobody reads, so that the age is not counted from the last reader", async () => {
  const { reads, ageSeconds, clock, asked, store, said } = fixture();
  const stop = new AbortController();
  const kept = reads.keep(stop.signal);
  await clock.advance(60_000);
  expect(asked()).toBeGreaterThan(8);
  await reads.fresh(signal);
  const before = asked();
  await clock.advance(4_000);
  expect(asked()).toBe(before);
  store(() => Promise.reject(new AppError("store.unavailable", "no leader")));
  await clock.advance(20_000);
  expect(said).toEqual(["the store does not answer: reads show what this server last knew"]);
  expect(ageSeconds()).toBeGreaterThanOrEqual(20);
  expect(ageSeconds()).toBeLessThanOrEqual(26);
  store(() => Promise.reject(new AppError("internal.error", "odd")));
  await clock.advance(10_000);
  expect(said.at(-1)).toBe("the store could not be asked");
  stop.abort();
  await kept;
});

test("does not wait for a store that says nothing", async () => {
  const { fresh, clock, said, store } = fixture();
  store(() => new Promise(() => undefined));
  const read = fresh(signal);
  await clock.advance(2_000);
  await read;
  expect(said).toHaveLength(1);
});

test("passes other failures on", async () => {
  const { fresh, store } = fixture();
  store(() => Promise.reject(new AppError("operation.cancelled", "gone")));
  await expect(fresh(signal)).rejects.toThrow("gone");
});
