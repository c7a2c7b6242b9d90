import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { given } from "@gpve/contracts/given.ts";
import { afterAll, afterEach, describe, expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Op, Store } from "../port.ts";
import { prefixEnd, utf8 } from "../keys.ts";
import { openWatch, storeConformance } from "../testing/conformance.ts";
import { Room } from "./room.ts";
import { openSqliteStore } from "./sqlite-store.ts";

const dirs: string[] = [];
const stores: Store[] = [];

function tempFile(): string {
  const dir = mkdtempSync(join(tmpdir(), "gpve-store-"));
  dirs.push(dir);
  return join(dir, "sub", "store.db");
}

function open(path: string, extra: { maxBytes?: number; clock?: FakeClock } = {}): Store {
  const store = openSqliteStore({ path, ...extra });
  stores.push(store);
  return store;
}

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});

afterAll(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true });
});

const put = (key: string, value: string | Uint8Array, lease?: bigint): Op => ({
  type: "put",
  key: utf8(key),
  value: typeof value === "string" ? utf8(value) : value,
  ...given({ lease }),
});
const write = async (store: Store, ...ops: Op[]): Promise<number> =>
  (await store.txn({ compare: [], success: ops })).revision;
const everything = { key: utf8("/"), end: prefixEnd(utf8("/")) };

for (const kind of ["memory", "file"] as const) {
  storeConformance(`SQLite in ${kind}`, async () => {
    const clock = new FakeClock();
    const path = kind === "memory" ? ":memory:" : tempFile();
    const store = openSqliteStore({ path, clock });
    return {
      store,
      close: () => store.close(),
      pass: (seconds) => clock.advance(seconds * 1_000),
    };
  });
}

describe("SQLite store", () => {
  it("keeps everything over a restart: keys, history, revision, compaction", async () => {
    const path = tempFile();
    const first = open(path);
    await write(first, put("/a", "1"));
    const r2 = await write(first, put("/a", "2"), put("/b", "2"));
    await first.compact(r2);
    const last = await write(first, { type: "delete", key: utf8("/b") });
    await first.close();
    const second = open(path);
    expect(await second.revision()).toBe(last);
    expect(await second.range({ ...everything, revision: r2 })).toMatchObject({ count: 2 });
    await expect(second.range({ ...everything, revision: r2 - 1 })).rejects.toMatchObject({
      code: "store.compacted",
    });
    const watch = openWatch(second, { ...everything, startRevision: last });
    expect((await watch.events(1))[0]?.type).toBe("delete");
    await watch.stop();
  });

  it("keeps its files to their owner", async () => {
    const path = tempFile();
    await write(open(path), put("/a", "secret"));
    for (const name of [path, `${path}-wal`]) expect(statSync(name).mode & 0o777).toBe(0o600);
    expect(() => open("/dev/null/store.db")).toThrow(/store.db failed/);
  });

  it("never reuses a revision whose last trace was compacted away", async () => {
    const path = tempFile();
    const first = open(path);
    await write(first, put("/a", "1"));
    const gone = await write(first, { type: "delete", key: utf8("/a") });
    await first.compact(gone);
    await first.close();
    const second = open(path);
    expect(await write(second, put("/a", "1"))).toBe(gone + 1);
  });

  it("removes exactly what compaction lets go, however often it is done", async () => {
    const path = tempFile();
    const store = open(path);
    for (let i = 0; i < 30; i++) {
      await write(store, put("/often", String(i)), put(`/once/${i}`, "x"));
      if (i % 3 === 0) await write(store, { type: "delete", key: utf8(`/once/${i}`) });
      if (i % 7 === 6) await store.compact((await store.revision()) - 3);
    }
    const revision = await store.revision();
    await Promise.all([store.compact(revision - 1), store.compact(revision)]);
    await store.close();
    const raw = new DatabaseSync(path);
    const count = (sql: string): unknown => raw.prepare(sql).get()?.["n"];
    // Twenty that live and the one written often; deletions before the compacted revision are gone.
    expect(count("SELECT count(*) AS n FROM history")).toBe(21);
    expect(count("SELECT count(*) AS n FROM live")).toBe(21);
    raw.close();
  });

  it("gives a lease its full time again after a restart, then ends it", async () => {
    const path = tempFile();
    const clock = new FakeClock();
    const first = open(path, { clock });
    const { id } = await first.leaseGrant(10);
    await write(first, put("/a", "1", id));
    await clock.advance(8_000);
    await first.close();
    const second = open(path, { clock });
    await clock.advance(8_000);
    expect((await second.range(everything)).count).toBe(1);
    expect((await second.leaseStatus(id)).ttlSeconds).toBe(2);
    await clock.advance(3_000);
    expect((await second.range(everything)).count).toBe(0);
    await second.close();
    expect((await open(path, { clock }).leaseStatus(id)).ttlSeconds).toBe(-1);
  });

  it("refuses a file of a newer version, of another program, or in use elsewhere", async () => {
    const path = tempFile();
    await open(path).close();
    const raw = new DatabaseSync(path);
    raw.exec("PRAGMA user_version = 99");
    raw.close();
    expect(() => open(path)).toThrow(/newer version \(format 99/);
    const foreign = tempFile();
    await open(foreign).close();
    const other = new DatabaseSync(foreign);
    other.exec("PRAGMA application_id = 1");
    other.close();
    expect(() => open(foreign)).toThrow(/another program/);
    const busy = tempFile();
    const owner = open(busy);
    await write(owner, put("/a", "1"));
    expect(() => open(busy)).toThrow(/in use by another process/);
  });

  it("refuses a file that is not a database", async () => {
    const path = tempFile();
    await open(path).close();
    writeFileSync(path, "x".repeat(8_192));
    expect(() => open(path)).toThrow(/damaged/);
  });

  it("answers store.full when there is no room, writes nothing, and works on afterwards", async () => {
    const path = tempFile();
    const store = open(path, { maxBytes: 256 * 1024 });
    const before = await write(store, put("/small", "1"));
    const big = new Uint8Array(600 * 1024);
    const results = await Promise.allSettled([
      write(store, put("/x", "fits")),
      write(store, put("/half", "no"), put("/big", big)),
      write(store, put("/y", "fits")),
    ]);
    expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(results[1]).toMatchObject({ reason: { code: "store.full" } });
    expect(await store.revision()).toBe(before + 2);
    expect((await store.range(everything)).count).toBe(3);
    await expect(write(store, put("/big", big))).rejects.toMatchObject({ code: "store.full" });
    expect(await write(store, put("/small", "2"))).toBe(before + 3);
  });

  it("has room left for deletes and compactions where puts have none, and gets it back by them", async () => {
    const store = open(tempFile(), { maxBytes: 1024 * 1024 });
    const value = new Uint8Array(2_000);
    let count = 0;
    const fill = async (): Promise<void> => {
      for (;;) await write(store, put(`/k/${count++}`, value));
    };
    await expect(fill()).rejects.toMatchObject({ code: "store.full" });
    expect(count).toBeGreaterThan(300);
    const change = write(store, { type: "txn", compare: [], success: [put("/k/1", "")] });
    await expect(change).rejects.toThrow("delete what is not needed any more");
    // What was read can be read still, and what was there be deleted one by one.
    for (let at = 0; at < count - 1; at++)
      expect(await write(store, { type: "delete", key: utf8(`/k/${at}`) })).toBeGreaterThan(at);
    await expect(write(store, put("/x", value))).rejects.toMatchObject({ code: "store.full" });
    // As the API servers of Kubernetes do.
    const revision = await write(store, put("compact_rev_key", "1"));
    await store.compact(revision);
    await write(store, put("/x", value));
    expect(store.upkeep?.size().usedBytes).toBeLessThan(256 * 1024);
  });

  it("keeps room for compactions also from those who delete without end", async () => {
    const room = new Room({ usedPages: () => used }, "x", 6_400);
    const refused = (op: Op): boolean => {
      if (op.type !== "put" && op.type !== "delete") return false;
      try {
        room.require(op);
        return false;
      } catch (err) {
        expect(err).toMatchObject({ code: "store.full" });
        return true;
      }
    };
    const ops = [put("/a", "1"), { type: "delete", key: utf8("/a") }, put("compact_rev_key", "1")] as const;
    let used = 5_999;
    expect(ops.map(refused)).toEqual([false, false, false]);
    used = 6_000;
    expect(ops.map(refused)).toEqual([true, false, false]);
    used = 6_300;
    expect(ops.map(refused)).toEqual([true, true, false]);
  });

  it("sends a watch that is too slow back to the history, losing nothing", async () => {
    const store = open(":memory:");
    const watch = openWatch(store, everything);
    await watch.next();
    const first = watch.events(1);
    await write(store, put("/first", "x"));
    await first;
    for (let i = 0; i < 120; i++) {
      await write(store, ...Array.from({ length: 100 }, (_, n) => put(`/k/${i}/${n}`, "x")));
    }
    const events = await watch.events(12_000);
    expect(events).toHaveLength(12_000);
    const revisions = events.map((event) => event.kv.modRevision);
    expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
    expect(new Set(events.map((event) => String(event.kv.key))).size).toBe(12_000);
    await watch.stop();
  });

  it("tells a watch that asks for it how far the store moved on", async () => {
    const store = open(":memory:");
    const watch = openWatch(store, { key: utf8("/mine/"), end: prefixEnd(utf8("/mine/")), progress: true });
    await watch.next();
    const waiting = watch.next();
    const revision = await write(store, put("/other", "x"));
    expect(await waiting).toEqual({ type: "progress", revision });
    await watch.stop();
  });

  it("takes a key that nested transactions put and delete in one revision", async () => {
    const store = open(":memory:");
    const key = Uint8Array.of(0);
    // etcd refuses a key that is written twice, but lets these two meet; so do we.
    const first = await write(
      store,
      { type: "txn", compare: [], success: [{ type: "put", key, value: utf8("1") }, put("c", "1")] },
      { type: "txn", compare: [], success: [{ type: "delete", key, end: utf8("b") }] },
    );
    expect((await store.range({ key })).count).toBe(0);
    expect((await store.range({ key, revision: first })).count).toBe(0);
    expect((await store.range({ key: utf8("c") })).count).toBe(1);
    await store.close();
  });

  it("ends watches and refuses work once closed", async () => {
    const store = open(":memory:");
    const watch = openWatch(store, everything);
    await watch.next();
    const waiting = watch.next();
    const late = write(store, put("/a", "1"));
    await store.close();
    await late;
    expect(await waiting).toMatchObject({ type: "events", revision: 2 });
    await expect(watch.next()).rejects.toMatchObject({ code: "store.unavailable" });
    await expect(write(store, put("/a", "1"))).rejects.toMatchObject({ code: "store.unavailable" });
  });

  it("keeps a revoked lease from taking keys that arrive in the same batch", async () => {
    const store = open(":memory:");
    const { id } = await store.leaseGrant(60);
    const results = await Promise.allSettled([
      store.leaseRevoke(id),
      store.leaseRevoke(id),
      write(store, put("/a", "1", id)),
    ]);
    expect(results.map((result) => result.status)).toEqual(["fulfilled", "rejected", "rejected"]);
  });
});
