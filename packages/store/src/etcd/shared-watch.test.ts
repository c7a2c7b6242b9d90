import { afterEach, describe, expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { fromUtf8, prefixEnd, utf8 } from "../keys.ts";
import type { Op, Store, StoreEvent, WatchBatch, WatchRequest } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { openWatch, storeConformance } from "../testing/conformance.ts";
import { startFakeEtcd } from "../testing/fake-etcd.ts";
import { openEtcdStore } from "./etcd-store.ts";
import { SharedWatches } from "./shared-watch.ts";

/** Every watch asks for a part, which is all of it: none is told less than one that asks for everything. */
function inParts(store: Store): Store {
  return new Proxy(store, {
    get(target, name) {
      const watch = (request: WatchRequest) => {
        const { key: start, end } = request;
        return target.watch({ ...request, only: [end === undefined ? { start } : { start, end }] });
      };
      const own: unknown = Reflect.get(target, name);
      if (name === "watch") return watch;
      return typeof own === "function" ? (own.bind(target) as unknown) : own;
    },
  });
}

storeConformance("etcd protocol, all watches shared", async () => {
  const clock = new FakeClock();
  const behind = openSqliteStore({ path: ":memory:", clock });
  const fake = await startFakeEtcd(behind);
  const store = openEtcdStore({ endpoints: [fake.url] });
  return {
    store: inParts(store),
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

const prefix = (name: string) => ({ start: utf8(name), end: prefixEnd(utf8(name)) });
const everything = { key: utf8("/"), end: prefixEnd(utf8("/")) };
const put = (key: string, value = "x"): Op => ({ type: "put", key: utf8(key), value: utf8(value) });
const names = (events: readonly StoreEvent[]) => events.map(({ kv }) => fromUtf8(kv.key));

/** Watches shared in front of SQLite, which counts those that are open. */
function shared(limits?: { events: number; bytes: number }) {
  const behind = openSqliteStore({ path: ":memory:" });
  closers.push(() => behind.close());
  const asked: WatchRequest[] = [];
  const open = new Set<WatchRequest>();
  const watches = new SharedWatches((request) => {
    asked.push(request);
    open.add(request);
    request.signal.addEventListener("abort", () => open.delete(request), { once: true });
    return behind.watch(request);
  }, limits);
  const of = (part: string, startRevision: number, more: Partial<WatchRequest> = {}) =>
    openWatch({ watch: (request: WatchRequest) => watches.watch({ ...request, startRevision }) } as Store, {
      ...everything,
      only: [prefix(part)],
      ...more,
    });
  const write = async (...ops: Op[]) => (await behind.txn({ compare: [], success: ops })).revision;
  return { behind, watches, asked, open, of, write };
}

describe("shared watches", () => {
  it("cost the store one watch, and give each follower its part of every revision", async () => {
    const { asked, open, of, write } = shared();
    const start = (await write(put("/a/0"))) + 1;
    const followers = ["/a/", "/b/", "/a/"].map((part) => of(part, start));
    for (const follower of followers)
      expect(await follower.next()).toEqual({ type: "ready", revision: start - 1 });
    const waiting = followers.map((follower) => follower.events(2));
    await write(put("/a/1"), put("/b/1"), put("/c/1"));
    await write(put("/c/2"));
    await write(put("/a/2"), put("/b/2"));
    const told = await Promise.all(waiting);
    expect(told.map(names)).toEqual([
      ["/a/1", "/a/2"],
      ["/b/1", "/b/2"],
      ["/a/1", "/a/2"],
    ]);
    expect(asked).toHaveLength(1);
    for (const follower of followers) await follower.stop();
    expect(open.size).toBe(0);
  });

  it("let who comes late, or has fallen behind, read from the store what is no longer kept", async () => {
    const { asked, open, of, write } = shared({ events: 3, bytes: 1_000 });
    const start = (await write(put("/a/0"))) + 1;
    const [quick, slow] = [of("/a/", start), of("/a/", start)];
    for (const follower of [quick, slow]) await follower.next();
    const seen: string[] = [];
    for (let i = 0; i < 10; i++) {
      await write(put(`/a/${i}`));
      seen.push(...names(await quick.events(1)));
    }
    const expected = Array.from({ length: 10 }, (_, i) => `/a/${i}`);
    expect(seen).toEqual(expected);
    expect(asked).toHaveLength(1);
    expect(names(await slow.events(10))).toEqual(expected);
    const late = of("/a/", start);
    expect(names(await late.events(10))).toEqual(expected);
    // They have joined the others again: one watch is all there is.
    const next = [quick, slow, late].map((follower) => follower.events(1));
    await write(put("/a/joined"));
    for (const events of await Promise.all(next)) expect(names(events)).toEqual(["/a/joined"]);
    expect(open.size).toBe(1);
    for (const follower of [quick, slow, late]) await follower.stop();
    expect(open.size).toBe(0);
  });

  it("do not let a follower who waits for the far future keep others from the present", async () => {
    const { of, write } = shared();
    const start = (await write(put("/a/0"))) + 1;
    const far = of("/a/", 1_000_000);
    expect((await far.next())?.type).toBe("ready");
    const waits = far.next();
    const near = of("/a/", start);
    await near.next();
    await write(put("/a/1"));
    expect(names(await near.events(1))).toEqual(["/a/1"]);
    await near.stop();
    far.controller.abort();
    expect(await waits).toBeUndefined();
  });

  it("answer a request for progress after the events it speaks of", async () => {
    const { watches, write } = shared();
    const start = (await write(put("/a/0"))) + 1;
    const stop = new AbortController();
    const watching = watches.watch({
      ...everything,
      only: [prefix("/a/")],
      startRevision: start,
      signal: stop.signal,
    });
    const batches = watching[Symbol.asyncIterator]();
    await batches.next();
    await write(put("/a/1"));
    const revision = await write(put("/elsewhere"));
    watching.requestProgress();
    const told: WatchBatch[] = [];
    while (told.at(-1)?.type !== "progress") told.push((await batches.next()).value as WatchBatch);
    expect(told.map(({ type }) => type)).toEqual(["events", "progress"]);
    expect(told.at(-1)).toEqual({ type: "progress", revision });
    stop.abort();
    expect((await batches.next()).done).toBe(true);
  });

  it("tell of progress without being asked only those who want it", async () => {
    const { of, write } = shared();
    const start = (await write(put("/a/0"))) + 1;
    const [eager, plain] = [of("/a/", start, { progress: true }), of("/a/", start)];
    for (const follower of [eager, plain]) await follower.next();
    const first = plain.next();
    const revision = await write(put("/b/1"));
    expect(await eager.next()).toEqual({ type: "progress", revision });
    await write(put("/a/1"));
    expect((await first)?.type).toBe("events");
    for (const follower of [eager, plain]) await follower.stop();
  });

  it("tell who is behind a compaction that events are lost, and everybody why the store is gone", async () => {
    const { behind, of, write } = shared({ events: 1, bytes: 1_000 });
    const start = (await write(put("/a/0"))) + 1;
    const near = of("/a/", start);
    await near.next();
    for (const key of ["/a/1", "/a/2", "/a/3"]) {
      await write(put(key));
      await near.events(1);
    }
    const compactRevision = await behind.revision();
    await behind.compact(compactRevision);
    const late = of("/a/", start);
    await late.next();
    expect(await late.next()).toEqual({ type: "gap", compactRevision });
    expect(await late.next()).toBeUndefined();
    const waiting = near.next();
    await behind.close();
    await expect(waiting).rejects.toMatchObject({ code: "store.unavailable" });
  });
});
