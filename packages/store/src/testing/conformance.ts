// What every Store must do. Runs on SQLite in memory and on disk, on one etcd and on three.
import { given } from "@gpve/contracts/given.ts";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { Bytes, Op, Store, StoreEvent, WatchBatch, WatchRequest } from "../port.ts";
import { TO_THE_END, fromUtf8, keyAfter, prefixEnd, utf8 } from "../keys.ts";

export interface ConformanceTarget {
  readonly store: Store;
  readonly close: () => Promise<void>;
  /** Lets this many seconds pass: moves a fake clock, or really waits. */
  readonly pass: (seconds: number) => Promise<void>;
}

export function storeConformance(name: string, open: () => Promise<ConformanceTarget>): void {
  describe(`Store conformance: ${name}`, () => {
    let target: ConformanceTarget;
    let store: Store;
    let root = "";
    let tests = 0;
    beforeAll(async () => {
      target = await open();
      store = target.store;
    });
    afterAll(async () => {
      await target.close();
    });
    /** A corner of the key space for each test. */
    const fresh = (): void => {
      root = `/conformance/${++tests}/`;
    };
    const k = (suffix: string): Bytes => utf8(root + suffix);
    const all = (): { key: Bytes; end: Bytes } => ({ key: utf8(root), end: prefixEnd(utf8(root)) });
    const put = (suffix: string, value: string, lease?: bigint): Op => ({
      type: "put",
      key: k(suffix),
      value: utf8(value),
      ...given({ lease }),
    });
    const write = async (...ops: Op[]): Promise<number> =>
      (await store.txn({ compare: [], success: ops })).revision;
    const names = (kvs: readonly { key: Bytes }[]): string[] =>
      kvs.map((kv) => fromUtf8(kv.key).slice(root.length));
    const get = async (suffix: string, revision?: number) =>
      (await store.range({ key: k(suffix), ...given({ revision }) })).kvs[0];
    const fails = async (promise: Promise<unknown>, code: string): Promise<void> => {
      const err = await promise.then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(isAppError(err) ? err.code : err).toBe(code);
    };

    it("gives each write transaction one new revision and counts versions", async () => {
      fresh();
      const before = await store.revision();
      const r1 = await write(put("a", "1"), put("b", "1"));
      const r2 = await write(put("a", "2"));
      expect([r1, r2]).toEqual([before + 1, before + 2]);
      expect(await store.revision()).toBe(r2);
      expect(await get("a")).toMatchObject({ createRevision: r1, modRevision: r2, version: 2, lease: 0n });
      expect(await get("b")).toMatchObject({ createRevision: r1, modRevision: r1, version: 1 });
      await write({ type: "delete", key: k("a") });
      const r4 = await write(put("a", "again"));
      expect(await get("a")).toMatchObject({ createRevision: r4, modRevision: r4, version: 1 });
    });

    it("makes no revision for reads, refused branches and deletions of nothing", async () => {
      fresh();
      const before = await write(put("a", "1"));
      await store.txn({ compare: [], success: [{ type: "range", key: k("a") }] });
      await write({ type: "delete", key: k("none") });
      const refused = await store.txn({
        compare: [{ key: k("a"), result: "equal", target: "version", version: 9 }],
        success: [put("a", "2")],
      });
      expect(refused).toMatchObject({ succeeded: false, responses: [], revision: before });
      expect(await store.revision()).toBe(before);
    });

    it("keeps bytes as they are, including empty values and keys that are not text", async () => {
      fresh();
      const key = Uint8Array.of(...utf8(root), 0xff, 0x00, 0xc3);
      const value = Uint8Array.of(0, 255, 0, 128);
      await store.txn({ compare: [], success: [{ type: "put", key, value }, put("empty", "")] });
      expect((await store.range({ key })).kvs[0]).toMatchObject({ key, value });
      expect((await get("empty"))?.value).toHaveLength(0);
    });

    it("lists ranges in byte order, both ways, in pages at one revision", async () => {
      fresh();
      const ids = ["a", "a/1", "aa", "b", "B", "\u00e9", "c"];
      await write(...ids.map((id) => put(id, id)));
      const sorted = ["B", "a", "a/1", "aa", "b", "c", "\u00e9"];
      const list = await store.range(all());
      expect(names(list.kvs)).toEqual(sorted);
      expect(list).toMatchObject({ count: 7, more: false });
      expect(names((await store.range({ ...all(), descending: true })).kvs)).toEqual(sorted.toReversed());
      const first = await store.range({ ...all(), limit: 3 });
      expect(first).toMatchObject({ count: 7, more: true });
      await write({ type: "delete", key: k("aa") }, put("zz", "new"), put("c", "changed"));
      const last = first.kvs.at(-1)?.key ?? utf8("");
      const rest = await store.range({
        key: keyAfter(last),
        end: all().end,
        revision: first.revision,
      });
      expect(names([...first.kvs, ...rest.kvs])).toEqual(sorted);
      expect(fromUtf8(rest.kvs.find((kv) => fromUtf8(kv.key).endsWith("/c"))?.value ?? utf8("?"))).toBe("c");
      const exact = await store.range({ key: k("a"), end: k("aa") });
      expect(names(exact.kvs)).toEqual(["a", "a/1"]);
      expect((await store.range({ key: k("b"), end: k("a") })).kvs).toEqual([]);
      expect((await store.range({ key: k("c"), end: TO_THE_END })).kvs.length).toBeGreaterThanOrEqual(3);
    });

    it("answers keys only, counts only and only what is newer", async () => {
      fresh();
      await write(put("a", "1"), put("b", "1"), put("c", "1"));
      const r = await write(put("b", "2"));
      const keys = await store.range({ ...all(), keysOnly: true });
      expect(keys.kvs.map((kv) => kv.value.length)).toEqual([0, 0, 0]);
      expect(await store.range({ ...all(), countOnly: true })).toMatchObject({ kvs: [], count: 3 });
      const newer = await store.range({ ...all(), minModRevision: r });
      expect(names(newer.kvs)).toEqual(["b"]);
      expect(newer.count).toBe(3);
    });

    it("reads any older revision and refuses one of the future", async () => {
      fresh();
      const r1 = await write(put("a", "1"));
      const r2 = await write(put("a", "2"), put("b", "2"));
      const r3 = await write({ type: "delete", key: k("a") });
      expect(fromUtf8((await get("a", r1))?.value ?? utf8(""))).toBe("1");
      expect(fromUtf8((await get("a", r2))?.value ?? utf8(""))).toBe("2");
      expect(await get("a", r3)).toBeUndefined();
      expect(await store.range({ ...all(), revision: r1 })).toMatchObject({ count: 1, revision: r3 });
      expect(await store.range({ ...all(), revision: r2, countOnly: true })).toMatchObject({ count: 2 });
      await fails(store.range({ ...all(), revision: r3 + 1_000 }), "request.invalid");
    });

    it("compares every target with every result, on keys present and absent", async () => {
      fresh();
      const r1 = await write(put("a", "m"));
      const r2 = await write(put("a", "m"));
      const test = async (compare: Parameters<Store["txn"]>[0]["compare"]): Promise<boolean> =>
        (await store.txn({ compare, success: [] })).succeeded;
      const a = { key: k("a") };
      expect(await test([{ ...a, target: "version", version: 2, result: "equal" }])).toBe(true);
      expect(await test([{ ...a, target: "version", version: 2, result: "notEqual" }])).toBe(false);
      expect(await test([{ ...a, target: "version", version: 3, result: "less" }])).toBe(true);
      expect(await test([{ ...a, target: "createRevision", createRevision: r1, result: "equal" }])).toBe(
        true,
      );
      expect(await test([{ ...a, target: "createRevision", createRevision: r1, result: "greater" }])).toBe(
        false,
      );
      expect(await test([{ ...a, target: "modRevision", modRevision: r2, result: "equal" }])).toBe(true);
      expect(await test([{ ...a, target: "modRevision", modRevision: r1, result: "greater" }])).toBe(true);
      expect(await test([{ ...a, target: "value", value: utf8("m"), result: "equal" }])).toBe(true);
      expect(await test([{ ...a, target: "value", value: utf8("a"), result: "greater" }])).toBe(true);
      expect(await test([{ ...a, target: "value", value: utf8("z"), result: "less" }])).toBe(true);
      expect(await test([{ ...a, target: "lease", lease: 0n, result: "equal" }])).toBe(true);
      expect(await test([{ ...a, target: "lease", lease: 5n, result: "less" }])).toBe(true);
      const none = { key: k("none") };
      expect(await test([{ ...none, target: "version", version: 0, result: "equal" }])).toBe(true);
      expect(await test([{ ...none, target: "modRevision", modRevision: 0, result: "equal" }])).toBe(true);
      expect(await test([{ ...none, target: "value", value: utf8(""), result: "equal" }])).toBe(false);
      expect(await test([{ ...none, target: "value", value: utf8("x"), result: "notEqual" }])).toBe(false);
    });

    it("compares whole ranges", async () => {
      fresh();
      const r = await write(put("a", "1"), put("b", "1"));
      const unchangedSince = async (revision: number): Promise<boolean> =>
        (
          await store.txn({
            compare: [{ ...all(), target: "modRevision", modRevision: revision + 1, result: "less" }],
            success: [],
          })
        ).succeeded;
      expect(await unchangedSince(r)).toBe(true);
      await write(put("c", "new"));
      expect(await unchangedSince(r)).toBe(false);
      const empty = { key: k("x"), end: k("y") };
      const onEmpty = await store.txn({
        compare: [{ ...empty, target: "modRevision", modRevision: 1, result: "less" }],
        success: [],
      });
      expect(onEmpty.succeeded).toBe(true);
    });

    it("lets all comparisons, nested ones too, see the state before the transaction", async () => {
      fresh();
      const before: Op = {
        type: "txn",
        compare: [{ key: k("a"), target: "version", version: 0, result: "equal" }],
        success: [put("b", "not there before")],
        failure: [put("b", "there before")],
      };
      await write(put("a", "1"), before);
      expect(fromUtf8((await get("b"))?.value ?? utf8(""))).toBe("not there before");
      const { revision } = await store.range(all());
      await fails(
        write(put("a", "2"), { type: "range", key: k("a"), revision: revision + 1 }),
        "request.invalid",
      );
      expect(await store.revision()).toBe(revision);
    });

    it("runs nested transactions whose reads see what came before them", async () => {
      fresh();
      const answer = await store.txn({
        compare: [{ key: k("a"), target: "version", version: 0, result: "equal" }],
        success: [
          put("a", "1"),
          { type: "range", key: k("a") },
          {
            type: "txn",
            compare: [{ key: k("b"), target: "version", version: 0, result: "equal" }],
            success: [put("b", "inner")],
            failure: [put("b", "other")],
          },
          { type: "range", ...all() },
        ],
      });
      expect(answer.succeeded).toBe(true);
      const [, first, nested, last] = answer.responses;
      expect(first?.type === "range" && first.count).toBe(1);
      expect(nested?.type === "txn" && nested.succeeded).toBe(true);
      expect(last?.type === "range" && names(last.kvs)).toEqual(["a", "b"]);
      expect((await get("b"))?.modRevision).toBe(answer.revision);
    });

    it("refuses to write a key twice in one transaction, and too much at once", async () => {
      fresh();
      await fails(write(put("a", "1"), put("a", "2")), "request.invalid");
      await fails(write({ type: "delete", ...all() }, put("a", "2")), "request.invalid");
      await fails(
        write(put("a", "1"), { type: "txn", compare: [], success: [put("a", "2")] }),
        "request.invalid",
      );
      await fails(write({ type: "put", key: utf8(""), value: utf8("x") }), "request.invalid");
      await fails(write(...Array.from({ length: 129 }, (_, i) => put(String(i), "x"))), "request.too_large");
      await fails(write(put("big", "x".repeat(2 * 1024 * 1024))), "request.too_large");
      expect((await store.range(all())).count).toBe(0);
      const rest: Op = { type: "delete", key: k("r"), end: TO_THE_END };
      const keep: Op = { type: "put", key: k("s"), value: utf8(""), ignoreValue: true };
      await fails(write(rest, keep), "request.invalid");
      const deep: Op = {
        type: "txn",
        compare: [],
        success: Array.from({ length: 29 }, (_, i) => put(`deep${i}`, "x")),
      };
      const wide = Array.from({ length: 99 }, (_, i) => put(String(i), "x"));
      await fails(write(...wide, deep), "request.too_large");
      const branches = await store.txn({
        compare: [],
        success: [{ type: "txn", compare: [], success: [put("a", "1")], failure: [put("a", "2")] }],
      });
      expect(branches.succeeded).toBe(true);
    });

    it("returns what was there before, and can keep value or lease", async () => {
      fresh();
      await write(put("a", "1"), put("b", "1"));
      const answer = await store.txn({
        compare: [],
        success: [
          { type: "put", key: k("a"), value: utf8("2"), prevKv: true },
          { type: "delete", key: k("b"), prevKv: true },
        ],
      });
      const [wrote, removed] = answer.responses;
      expect(wrote?.type === "put" && fromUtf8(wrote.prevKv?.value ?? utf8(""))).toBe("1");
      expect(removed).toMatchObject({ type: "delete", deleted: 1 });
      expect(removed?.type === "delete" && names(removed.prevKvs)).toEqual(["b"]);
      const { id } = await store.leaseGrant(60);
      await write({ type: "put", key: k("a"), value: utf8(""), lease: id, ignoreValue: true });
      expect(await get("a")).toMatchObject({ value: utf8("2"), lease: id });
      await write({ type: "put", key: k("a"), value: utf8("3"), ignoreLease: true });
      expect(await get("a")).toMatchObject({ value: utf8("3"), lease: id });
      await fails(
        write({ type: "put", key: k("none"), value: utf8(""), ignoreValue: true }),
        "object.not_found",
      );
      await store.leaseRevoke(id);
    });

    it("lets exactly one of many compare-and-swap writers win each round", async () => {
      fresh();
      await write(put("n", "0"));
      const increment = async (): Promise<void> => {
        for (;;) {
          const kv = await get("n");
          const value = Number(fromUtf8(kv?.value ?? utf8("")));
          const { succeeded } = await store.txn({
            compare: [
              { key: k("n"), target: "modRevision", modRevision: kv?.modRevision ?? 0, result: "equal" },
            ],
            success: [put("n", String(value + 1))],
          });
          if (succeeded) return;
        }
      };
      await Promise.all(Array.from({ length: 20 }, increment));
      expect(fromUtf8((await get("n"))?.value ?? utf8(""))).toBe("20");
    });

    it("replays history to a watch and goes on live, without gap or repetition", async () => {
      fresh();
      const start = await write(put("a", "1"));
      await write(put("b", "1"), { type: "delete", key: k("a") });
      const watch = openWatch(store, { ...all(), startRevision: start, prevKv: true });
      expect(await watch.next()).toEqual({ type: "ready", revision: start - 1 });
      const writes = Array.from({ length: 30 }, (_, i) => write(put(`n${i}`, String(i))));
      await Promise.all(writes);
      const events = await watch.events(33);
      expect(events.slice(0, 3).map(brief)).toEqual([
        `put a=1 ${start}`,
        `put b=1 ${start + 1}`,
        `delete a= ${start + 1}`,
      ]);
      expect(fromUtf8(events[2]?.prevKv?.value ?? utf8(""))).toBe("1");
      expect(events[2]?.kv).toMatchObject({ createRevision: 0, version: 0 });
      const revisions = events.slice(3).map((event) => event.kv.modRevision);
      expect(revisions).toEqual([...new Set(revisions)].toSorted((a, b) => a - b));
      expect(new Set(names(events.slice(3).map((event) => event.kv))).size).toBe(30);
      await watch.stop();
      function brief(event: StoreEvent): string {
        return `${event.type} ${names([event.kv])[0]}=${fromUtf8(event.kv.value)} ${event.kv.modRevision}`;
      }
    });

    it("watches from now on, one key or a range only, until its signal", async () => {
      fresh();
      await write(put("a", "old"));
      const one = openWatch(store, { key: k("a") });
      expect((await one.next())?.type).toBe("ready");
      await write(put("b", "other"));
      await write(put("a", "new"));
      const [event] = await one.events(1);
      expect(fromUtf8(event?.kv.value ?? utf8(""))).toBe("new");
      const waiting = one.next();
      one.controller.abort();
      expect(await waiting).toBeUndefined();
    });

    it("waits with a watch for a revision of the future", async () => {
      fresh();
      const now = await store.revision();
      const watch = openWatch(store, { ...all(), startRevision: now + 3 });
      expect(await watch.next()).toEqual({ type: "ready", revision: now + 2 });
      for (const id of ["1", "2", "3"]) await write(put(id, id));
      expect(names((await watch.events(1)).map((event) => event.kv))).toEqual(["3"]);
      await watch.stop();
    });

    it("keeps the events of a transaction in the order of its operations", async () => {
      fresh();
      await write(put("d1", ""), put("d2", ""));
      const watch = openWatch(store, all());
      await watch.next();
      await write(put("z", ""), { type: "delete", key: k("d"), end: k("e") }, put("a", ""));
      const events = await watch.events(4);
      expect(names(events.map((event) => event.kv))).toEqual(["z", "d1", "d2", "a"]);
      expect(new Set(events.map((event) => event.kv.modRevision)).size).toBe(1);
      await watch.stop();
    });

    it("compacts: newest values stay, older reads are refused, a watch learns of the gap", async () => {
      fresh();
      const r1 = await write(put("a", "1"), put("gone", "1"));
      await write({ type: "delete", key: k("gone") });
      const r3 = await write(put("a", "3"));
      const r4 = await write(put("a", "4"));
      await store.compact(r3);
      await fails(store.range({ ...all(), revision: r1 }), "store.compacted");
      expect(fromUtf8((await get("a", r3))?.value ?? utf8(""))).toBe("3");
      expect(fromUtf8((await get("a"))?.value ?? utf8(""))).toBe("4");
      await fails(store.compact(r3), "store.compacted");
      await fails(store.compact(r4 + 1_000), "request.invalid");
      const late = openWatch(store, { ...all(), startRevision: r1 });
      const seen: WatchBatch[] = [];
      for (let batch = await late.next(); batch !== undefined; batch = await late.next()) seen.push(batch);
      expect(seen.at(-1)).toEqual({ type: "gap", compactRevision: r3 });
      expect(seen.some((batch) => batch.type === "events")).toBe(false);
      const exact = openWatch(store, { ...all(), startRevision: r3 });
      expect((await exact.events(2)).map((event) => fromUtf8(event.kv.value))).toEqual(["3", "4"]);
      await exact.stop();
    });

    it("ties keys to a lease and removes them together when it is revoked", async () => {
      fresh();
      const { id, ttlSeconds } = await store.leaseGrant(60);
      expect(ttlSeconds).toBeGreaterThanOrEqual(60);
      await write(put("a", "1", id), put("b", "1", id), put("c", "1"));
      await write(put("b", "freed"));
      const status = await store.leaseStatus(id);
      expect(names(status.keys.map((key) => ({ key })))).toEqual(["a"]);
      expect(status.ttlSeconds).toBeGreaterThan(50);
      await write(put("b", "tied", id));
      const watch = openWatch(store, all());
      await watch.next();
      await store.leaseRevoke(id);
      const events = await watch.events(2);
      expect(events.map((event) => event.type)).toEqual(["delete", "delete"]);
      expect(new Set(events.map((event) => event.kv.modRevision)).size).toBe(1);
      expect(names((await store.range(all())).kvs)).toEqual(["c"]);
      await watch.stop();
      await fails(store.leaseRevoke(id), "object.not_found");
      await fails(store.leaseKeepAlive(id), "object.not_found");
      await fails(write(put("x", "1", id)), "object.not_found");
      expect((await store.leaseStatus(id)).ttlSeconds).toBe(-1);
    });

    it("takes a lease id of the caller's choice once", async () => {
      fresh();
      const id = 0x7fff_ffff_0000_0000n + BigInt(tests);
      expect((await store.leaseGrant(60, id)).id).toBe(id);
      await fails(store.leaseGrant(60, id), "object.exists");
      await write(put("a", "1", id));
      expect((await get("a"))?.lease).toBe(id);
      await store.leaseRevoke(id);
      await fails(store.leaseGrant(0), "request.invalid");
    });

    it("ends a lease that nobody keeps alive, and keeps one that somebody does", async () => {
      fresh();
      const dying = await store.leaseGrant(2);
      const kept = await store.leaseGrant(2);
      await write(put("dying", "1", dying.id), put("kept", "1", kept.id));
      const watch = openWatch(store, all());
      await watch.next();
      for (let i = 0; i < 5; i++) {
        await target.pass(1);
        expect(await store.leaseKeepAlive(kept.id)).toBeGreaterThanOrEqual(2);
      }
      expect(names((await watch.events(1)).map((event) => event.kv))).toEqual(["dying"]);
      expect(await get("dying")).toBeUndefined();
      expect(await get("kept")).toBeDefined();
      await fails(store.leaseKeepAlive(dying.id), "object.not_found");
      await watch.stop();
      await store.leaseRevoke(kept.id);
    });

    it("serves many watches of one prefix the same story", async () => {
      fresh();
      const watches = Array.from({ length: 5 }, () => openWatch(store, all()));
      for (const watch of watches) await watch.next();
      await Promise.all(Array.from({ length: 50 }, (_, i) => write(put(String(i), "x"))));
      const stories = await Promise.all(watches.map((watch) => watch.events(50)));
      const told = stories.map((events) => events.map((event) => event.kv.modRevision));
      for (const story of told) expect(story).toEqual(told[0]);
      for (const watch of watches) await watch.stop();
    });

    it("refuses work that was cancelled before it began", async () => {
      fresh();
      const signal = AbortSignal.abort(new Error("gone"));
      await fails(store.range({ ...all() }, { signal }), "operation.cancelled");
      await fails(store.txn({ compare: [], success: [put("a", "1")] }, { signal }), "operation.cancelled");
      expect((await store.range(all())).count).toBe(0);
    });
  });
}

interface OpenWatch {
  readonly controller: AbortController;
  next(): Promise<WatchBatch | undefined>;
  events(count: number): Promise<StoreEvent[]>;
  stop(): Promise<void>;
}

/** Reads a watch batch by batch. */
export function openWatch(store: Store, request: Omit<WatchRequest, "signal">): OpenWatch {
  const controller = new AbortController();
  const iterator = store.watch({ ...request, signal: controller.signal })[Symbol.asyncIterator]();
  const next = async (): Promise<WatchBatch | undefined> => {
    const result = await iterator.next();
    return result.done === true ? undefined : result.value;
  };
  return {
    controller,
    next,
    async events(count) {
      const events: StoreEvent[] = [];
      while (events.length < count) {
        const batch = await next();
        if (batch === undefined) throw new Error(`the watch ended after ${events.length} of ${count} events`);
        if (batch.type === "gap") throw new Error(`the watch lost events up to ${batch.compactRevision}`);
        if (batch.type === "events") events.push(...batch.events);
      }
      return events;
    },
    async stop() {
      controller.abort();
      while ((await next()) !== undefined) continue;
    },
  };
}
