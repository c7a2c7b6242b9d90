import { Code, ConnectError } from "@connectrpc/connect";
import { afterEach, describe, expect, it } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { testRecord } from "@gpve/kit/testing/journal-conformance.ts";
import type { Op, Store } from "../port.ts";
import { prefixEnd, utf8 } from "../keys.ts";
import { StoreJournal } from "../journal/store-journal.ts";
import { openRecords } from "../records/records.ts";
import type { CollectionDef } from "../records/port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { openWatch, storeConformance } from "../testing/conformance.ts";
import { type FakeEtcd, startFakeEtcd } from "../testing/fake-etcd.ts";
import { openEtcdStore } from "./etcd-store.ts";

storeConformance("etcd protocol in front of SQLite", async () => {
  const clock = new FakeClock();
  const behind = openSqliteStore({ path: ":memory:", clock });
  const fake = await startFakeEtcd(behind);
  const store = openEtcdStore({ endpoints: [fake.url] });
  return {
    store,
    close: async () => {
      await store.close();
      await fake.down();
      await behind.close();
    },
    pass: (seconds) => clock.advance(seconds * 1_000),
  };
});

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

/** Members in front of one truth, and a client that knows them all. */
async function cluster(members: number): Promise<{ behind: Store; fakes: FakeEtcd[]; store: Store }> {
  const behind = openSqliteStore({ path: ":memory:" });
  closers.push(() => behind.close());
  const fakes: FakeEtcd[] = [];
  for (let i = 0; i < members; i++) {
    const fake = await startFakeEtcd(behind);
    closers.push(() => fake.down());
    fakes.push(fake);
  }
  const store = openEtcdStore({
    endpoints: fakes.map((fake) => fake.url),
    attemptMs: 300,
    deadlineMs: 1_000,
  });
  closers.push(() => store.close());
  return { behind, fakes, store };
}

const put = (key: string, value = "x"): Op => ({ type: "put", key: utf8(key), value: utf8(value) });
const write = (store: Store, ...ops: Op[]) => store.txn({ compare: [], success: ops });
const never = (): Promise<void> => new Promise(() => undefined);
const everything = { key: utf8("/"), end: prefixEnd(utf8("/")) };
const unless = (count: number, then: () => Promise<void>) => {
  let left = count;
  return () => (left-- > 0 ? then() : Promise.resolve());
};

describe("members that change", () => {
  it("are followed without losing a line that stays", async () => {
    const { behind, fakes } = await cluster(2);
    const [first, second] = fakes.map(({ url }) => url);
    let tell: (urls: readonly string[]) => void = () => undefined;
    const members = {
      current: () => [first ?? ""],
      follow: (listener: typeof tell) => void (tell = listener),
    };
    const store = openEtcdStore({ endpoints: [], members, attemptMs: 300, deadlineMs: 1_000 });
    await write(store, put("/a"));
    tell([first ?? "", second ?? ""]);
    await fakes[0]?.down();
    await write(store, put("/b")).catch(() => write(store, put("/b")));
    tell([second ?? ""]);
    expect((await store.range({ key: utf8("/b") })).count).toBe(1);
    expect(() => tell([])).toThrow("no etcd endpoint");
    await store.close();
    tell([first ?? ""]);
    expect((await behind.range(everything)).count).toBe(2);
    await fakes[0]?.up();
  });
});

describe("etcd store", () => {
  it("goes on at another member when one is down, hangs or has no leader", async () => {
    const { fakes, store } = await cluster(3);
    const [a, b, c] = fakes;
    if (a === undefined || b === undefined || c === undefined) throw new Error("three expected");
    await a.down();
    await write(store, put("/1"));
    b.intercept = async () => {
      throw new ConnectError("etcdserver: no leader", Code.Unavailable);
    };
    await write(store, put("/2"));
    await a.up();
    c.intercept = never;
    expect((await store.range(everything)).count).toBe(2);
  });

  it("repeats a read whose answer was lost, but never a write", async () => {
    const { behind, fakes, store } = await cluster(2);
    const lose = async (): Promise<void> => {
      throw new ConnectError("transport is closing", Code.Unavailable);
    };
    for (const fake of fakes) fake.beforeAnswer = unless(1, lose);
    expect((await store.range(everything)).count).toBe(0);
    for (const fake of fakes) fake.beforeAnswer = unless(1, lose);
    const lost = write(store, put("/once"));
    await expect(lost).rejects.toMatchObject({ code: "store.unavailable", data: { ambiguous: true } });
    await expect(lost).rejects.toThrow(/may or may not have been done/);
    expect((await behind.range({ key: utf8("/once") })).kvs[0]?.version).toBe(1);
  });

  it("recognises its own lease, revocation and compaction when the answer was lost", async () => {
    const { fakes, store } = await cluster(1);
    const [fake] = fakes;
    if (fake === undefined) throw new Error("one expected");
    const lose = async (): Promise<void> => {
      throw new ConnectError("transport is closing", Code.Unavailable);
    };
    fake.beforeAnswer = unless(1, lose);
    const { id } = await store.leaseGrant(60);
    expect((await store.leaseStatus(id)).grantedTtlSeconds).toBe(60);
    fake.beforeAnswer = unless(1, lose);
    await store.leaseRevoke(id);
    const { revision } = await write(store, put("/a"));
    fake.beforeAnswer = unless(1, lose);
    await store.compact(revision);
  });

  it("names all endpoints when none answers", async () => {
    const { fakes, store } = await cluster(2);
    for (const fake of fakes) await fake.down();
    const failure = store.revision();
    await expect(failure).rejects.toMatchObject({ code: "store.unavailable" });
    for (const { url } of fakes) await expect(failure).rejects.toThrow(url);
    await expect(write(store, put("/a"))).rejects.toMatchObject({
      code: "store.unavailable",
      data: { endpoints: fakes.map(({ url }) => url) },
    });
    const watch = openWatch(store, everything);
    await expect(watch.next()).rejects.toMatchObject({ code: "store.unavailable" });
    expect(() => openEtcdStore({ endpoints: [] })).toThrow(/no etcd endpoint/);
  });

  it("carries a watch over from member to member without loss or repetition", async () => {
    const { behind, fakes, store } = await cluster(2);
    const watch = openWatch(store, { ...everything, progress: true });
    await watch.next();
    for (let round = 0; round < 6; round++) {
      const fake = fakes[round % 2];
      await write(behind, put(`/${round}/before`));
      await fake?.down();
      await write(behind, put(`/${round}/during`), put(`/${round}/too`));
      await fake?.up();
      await write(behind, put(`/${round}/after`));
    }
    const events = await watch.events(24);
    const revisions = events.map((event) => event.kv.modRevision);
    expect(new Set(revisions).size).toBe(18);
    expect(revisions).toEqual(revisions.toSorted((a, b) => a - b));
    await watch.stop();
  });

  it("leaves a member that accepts no watch, and tells what it refuses for good", async () => {
    const { behind, fakes, store } = await cluster(2);
    const [a, b] = fakes;
    if (a === undefined || b === undefined) throw new Error("two expected");
    a.intercept = never;
    const watch = openWatch(store, everything);
    expect((await watch.next())?.type).toBe("ready");
    await write(behind, put("/a"));
    await watch.events(1);
    await watch.stop();
    for (const fake of fakes) {
      fake.intercept = async () => {
        throw new ConnectError("etcdserver: permission denied", Code.PermissionDenied);
      };
    }
    await expect(openWatch(store, everything).next()).rejects.toThrow(/refused us: permission denied/);
    await expect(store.revision()).rejects.toMatchObject({ code: "store.unavailable" });
    for (const fake of fakes) {
      fake.intercept = async () => {
        throw new ConnectError("etcdserver: strange argument", Code.InvalidArgument);
      };
    }
    await expect(store.revision()).rejects.toMatchObject({ code: "request.invalid" });
  });

  it("ends calls that are cancelled and refuses all once closed", async () => {
    const { fakes, store } = await cluster(1);
    const [fake] = fakes;
    if (fake === undefined) throw new Error("one expected");
    fake.intercept = never;
    const controller = new AbortController();
    const waiting = store.range(everything, { signal: controller.signal });
    setTimeout(() => controller.abort(), 20);
    await expect(waiting).rejects.toMatchObject({ code: "operation.cancelled" });
    const watch = openWatch(store, everything);
    const open = watch.next();
    await store.close();
    await expect(open).rejects.toMatchObject({ code: "store.unavailable" });
    await expect(store.revision()).rejects.toMatchObject({ code: "store.unavailable" });
  });
});

/** Every third answer is lost after the write, every fourth request before it. */
function loseAnswers(fakes: readonly FakeEtcd[]): void {
  let calls = 0;
  for (const fake of fakes) {
    fake.intercept = async (method) => {
      if (method === "txn" && ++calls % 4 === 0) throw new ConnectError("stream reset", Code.Unavailable);
    };
    fake.beforeAnswer = async (method) => {
      if (method === "txn" && calls % 3 === 0) throw new ConnectError("stream reset", Code.Unavailable);
    };
  }
}

describe("a journal whose store loses answers", () => {
  it("writes every record and keeps its claim", async () => {
    const { behind, fakes, store } = await cluster(2);
    const journal = new StoreJournal({ store, clock: systemClock, prefix: "/j/", leaseSeconds: 60 });
    await write(behind, put("/j/.commit/gone/0", "token 1"));
    loseAnswers(fakes);
    const session = await journal.claim("me", new AbortController().signal);
    for (let i = 1; i <= 20; i++) await session.write(testRecord(i));
    expect(session.lost.aborted).toBe(false);
    const { records, lastSequence } = await session.load();
    expect([records.length, lastSequence]).toEqual([20, 20]);
    expect((await behind.range({ key: utf8("/j/.commit/gone/0") })).count).toBe(0);
    await session.release();
  });
});

describe("records whose store loses answers", () => {
  const numbers: CollectionDef<number> = { prefix: "/gpve/n/", decode: Number };
  const log = { error: () => undefined };

  it("finds out what became of each transaction, done or not", async () => {
    const { fakes, store } = await cluster(2);
    const records = await openRecords(store, { prefix: "/gpve/", log });
    closers.push(() => records.close());
    loseAnswers(fakes);
    for (let i = 1; i <= 30; i++) {
      await records.transact((tx) => tx.put(numbers, "x", (tx.get(numbers, "x")?.value ?? 0) + 1));
      expect(records.collection(numbers).get("x")?.value).toBe(i);
    }
  });

  it("removes the slots of processes that are long gone", async () => {
    const { behind, store } = await cluster(1);
    await write(behind, put("/gpve/.commit/old/0", `token ${Date.now() - 2 * 86_400_000}`));
    await write(behind, put("/gpve/.commit/new/0", `token ${Date.now()}`));
    const records = await openRecords(store, { prefix: "/gpve/", log });
    closers.push(() => records.close());
    await expect.poll(async () => (await behind.range({ ...everything })).count).toBe(1);
  });
});
