import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, describe, expect, it } from "vitest";
import { prefixEnd, utf8 } from "../keys.ts";
import type { Store } from "../port.ts";
import { openWatch } from "../testing/conformance.ts";
import { openSqliteStore } from "./sqlite-store.ts";
import { openWalSync } from "./wal-sync.ts";

const folder = mkdtempSync(join(tmpdir(), "gpve-durable-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A disk that syncs when it is told to. */
function slowDisk(): { store: Store; syncs: ((err: Error | null) => void)[] } {
  const syncs: ((err: Error | null) => void)[] = [];
  const walSync = () => ({
    sync: (done: (err: Error | null) => void) => void syncs.push(done),
    close: () => undefined,
  });
  return { store: openSqliteStore({ path: ":memory:", walSync }), syncs };
}

const write = (store: Store, key: string): Promise<number> =>
  store
    .txn({ compare: [], success: [{ type: "put", key: utf8(key), value: utf8("1") }], failure: [] })
    .then(({ revision }) => revision);
const settledOf = (promise: Promise<unknown>): (() => boolean) => {
  let isSettled = false;
  const note = (): void => void (isSettled = true);
  promise.then(note, note);
  return () => isSettled;
};
const turns = async (): Promise<void> => {
  for (let count = 0; count < 5; count++) await turn();
};

describe("what is not on the disk yet", () => {
  it("is neither answered, nor told to watchers, nor read", async () => {
    const { store, syncs } = slowDisk();
    const watch = openWatch(store, { key: utf8("/"), end: prefixEnd(utf8("/")) });
    await watch.next();
    const seen = watch.next();
    const written = write(store, "/a");
    await turns();
    const read = store.range({ key: utf8("/a") });
    const waiting = [written, read, seen].map(settledOf);
    await turns();
    expect(waiting.map((isSettled) => isSettled())).toEqual([false, false, false]);
    expect(await store.revision()).toBe(1);
    syncs.shift()?.(null);
    expect(await written).toBe(2);
    expect(await read).toMatchObject({ count: 1, revision: 2 });
    expect(await seen).toMatchObject({ type: "events", revision: 2 });
    await store.close();
  });

  it("goes to the disk together, in the order of its revisions", async () => {
    const { store, syncs } = slowDisk();
    const order: number[] = [];
    const first = write(store, "/a").then((revision) => order.push(revision));
    await turns();
    const others = ["/b", "/c", "/d"].map(async (key) => {
      await turn();
      order.push(await write(store, key));
    });
    await turns();
    expect(syncs).toHaveLength(1);
    syncs.shift()?.(null);
    await first;
    expect(order).toEqual([2]);
    expect(syncs).toHaveLength(1);
    syncs.shift()?.(null);
    await Promise.all(others);
    expect(order).toEqual([2, 3, 4, 5]);
    await store.close();
  });

  it("is waited for when the store is closed", async () => {
    const { store, syncs } = slowDisk();
    const written = write(store, "/a");
    await turns();
    const closed = store.close();
    await expect(write(store, "/b")).rejects.toMatchObject({ code: "store.unavailable" });
    syncs.shift()?.(null);
    await closed;
    expect(await written).toBe(2);
  });

  it("and never gets there closes the store, with the reason for everybody", async () => {
    const { store, syncs } = slowDisk();
    const watch = openWatch(store, { key: utf8("/"), end: prefixEnd(utf8("/")) });
    await watch.next();
    const seen = watch.next();
    const written = write(store, "/a");
    await turns();
    const read = store.range({ key: utf8("/a") });
    const gathered = write(store, "/b");
    await turns();
    const queued = write(store, "/c");
    syncs.shift()?.(new Error("EIO: i/o error"));
    expect(syncs).toEqual([]);
    for (const promise of [written, read, gathered, queued, seen, store.revision(), write(store, "/d")])
      await expect(promise).rejects.toMatchObject({
        code: "store.unavailable",
        message: expect.stringContaining("EIO") as string,
      });
    await store.close();
  });
});

it("the log that is synced is the one that SQLite writes, also after it was emptied", async () => {
  const path = join(folder, "store.db");
  const real = openWalSync(path);
  const inodes = new Set<number>();
  const walSync = () => ({
    ...real,
    sync: (done: (err: Error | null) => void) => {
      inodes.add(statSync(`${path}-wal`).ino);
      real.sync(done);
    },
  });
  const store = openSqliteStore({ path, walSync });
  await write(store, "/a");
  await store.upkeep?.defragment();
  for (let count = 0; count < 50; count++) await write(store, `/${count}`);
  expect(inodes.size).toBe(1);
  await store.close();
});
