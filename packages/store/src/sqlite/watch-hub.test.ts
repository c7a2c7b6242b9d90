import { afterEach, beforeEach, expect, test } from "vitest";
import { fromUtf8, prefixEnd, utf8 } from "../keys.ts";
import type { Store, WatchBatch } from "../port.ts";
import { openSqliteStore } from "./sqlite-store.ts";

const MIB = 1024 * 1024;
const key = utf8("/g/");
let store: Store;
beforeEach(() => {
  store = openSqliteStore({ path: ":memory:" });
});
afterEach(() => store.close());

const writeLarge = async (from: number, to: number): Promise<void> => {
  for (let i = from; i < to; i++) {
    const name = utf8(`/g/${String(i).padStart(2, "0")}`);
    await store.txn({ compare: [], success: [{ type: "put", key: name, value: new Uint8Array(MIB) }] });
  }
};
const sizeOf = (batch: WatchBatch): number =>
  batch.type === "events" ? batch.events.reduce((sum, { kv }) => sum + kv.value.length, 0) : 0;

test("a watcher is told large values a few at a time, of the past and of what waited for it", async () => {
  await writeLarge(0, 10);
  const stop = new AbortController();
  const watching = store
    .watch({ key, end: prefixEnd(key), startRevision: 1, signal: stop.signal })
    [Symbol.asyncIterator]();
  const seen: string[] = [];
  const sizes: number[] = [];
  const take = async (count: number): Promise<void> => {
    while (seen.length < count) {
      const { value } = (await watching.next()) as { value: WatchBatch };
      if (value.type !== "events") continue;
      sizes.push(sizeOf(value));
      seen.push(...value.events.map((event) => fromUtf8(event.kv.key)));
    }
  };
  await take(10);
  const waiting = watching.next();
  await writeLarge(10, 11);
  const { value: first } = (await waiting) as { value: WatchBatch };
  expect(sizeOf(first)).toBe(MIB);
  // It does not read now: more than may wait for it.
  await writeLarge(11, 31);
  seen.push("/g/10");
  await take(31);
  stop.abort();
  expect(seen).toEqual(Array.from({ length: 31 }, (_, i) => `/g/${String(i).padStart(2, "0")}`));
  expect(Math.max(...sizes)).toBeLessThanOrEqual(3 * MIB);
});

test("a watcher that wants parts of a range hears of those alone, of the past and of now, and how far all is", async () => {
  await writeLarge(0, 3);
  const stop = new AbortController();
  const part = { start: utf8("/g/01"), end: utf8("/g/02") };
  const only = [part, { start: utf8("/g/40") }];
  const watching = store
    .watch({ key, end: prefixEnd(key), only, startRevision: 1, progress: true, signal: stop.signal })
    [Symbol.asyncIterator]();
  const seen: string[] = [];
  const until = async (revision: number): Promise<void> => {
    for (;;) {
      const { value } = (await watching.next()) as { value: WatchBatch };
      if (value.type === "events") seen.push(...value.events.map((event) => fromUtf8(event.kv.key)));
      if (value.type !== "gap" && value.revision >= revision) return;
    }
  };
  await until(await store.revision());
  expect(seen).toEqual(["/g/01"]);
  const live = watching.next();
  await writeLarge(10, 30);
  await live;
  await until(await store.revision());
  await writeLarge(40, 42);
  await until(await store.revision());
  expect(seen).toEqual(["/g/01", "/g/40"]);
  stop.abort();
});
