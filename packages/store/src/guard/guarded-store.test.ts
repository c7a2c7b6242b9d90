// A Store behind a guard as agents use it: over etcd's API, with our client, on a real SQLite store.
import { Code, ConnectError, createRouterTransport, type Transport } from "@connectrpc/connect";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { fromUtf8, prefixEnd, utf8 } from "../keys.ts";
import type { Compare, Op, Store, WatchBatch } from "../port.ts";
import { openRecords } from "../records/records.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { GuardedStore, type PeerRules } from "./guarded-store.ts";
import { etcdStoreOver } from "../etcd/etcd-store.ts";
import { linkOver } from "../etcd/link.ts";
import { memberOf } from "../etcd-server/member.ts";
import { storeRoutes } from "../etcd-server/routes.ts";
import { Watch } from "../gen/proto/etcdserverpb/rpc_pb.ts";

const peer = { peer: "p", leases: "/leases/p/" };
const guard: PeerRules = { ...peer, read: ["/g/"], hidden: ["/g/secrets/"], write: ["/g/"] };
const narrow: PeerRules = { ...peer, read: ["/g/"], hidden: ["/g/secrets/"], write: ["/g/own/"] };
const put = (key: string, value = "v", extra: object = {}): Op => ({
  type: "put",
  key: utf8(key),
  value: utf8(value),
  ...extra,
});
const all = { key: utf8("/g/"), end: prefixEnd(utf8("/g/")) };

let backing: Store;
let remote: Store;
const transportWith = (use: PeerRules): Transport =>
  createRouterTransport((router) =>
    storeRoutes(router, {
      storeOf: () => new GuardedStore(backing, use),
      member: memberOf("guarded", []),
      clock: systemClock,
    }),
  );
const storeOver = (transport: () => Transport, clock: Clock = systemClock): Store =>
  etcdStoreOver([linkOver("https://server", transport)], { clock });

beforeEach(async () => {
  backing = openSqliteStore({ path: ":memory:" });
  const transport = transportWith(guard);
  remote = storeOver(() => transport);
  for (const key of ["/g/a", "/g/b", "/g/secrets/x", "/g/t", "/g/u"]) {
    await backing.txn({ compare: [], success: [put(key)] });
  }
});
afterEach(async () => {
  await remote.close();
  await backing.close();
});

const names = async (request: Parameters<Store["range"]>[0]): Promise<string[]> =>
  (await remote.range(request)).kvs.map((kv) => fromUtf8(kv.key));

describe("a store reached over gRPC", () => {
  test("reads around what is hidden, in pages, both ways, at one revision", async () => {
    expect(await names(all)).toEqual(["/g/a", "/g/b", "/g/t", "/g/u"]);
    expect(await names({ ...all, descending: true, limit: 3 })).toEqual(["/g/u", "/g/t", "/g/b"]);
    const page = await remote.range({ ...all, limit: 2 });
    expect(page).toMatchObject({ more: true, count: 4 });
    expect(await remote.range({ ...all, countOnly: true })).toMatchObject({ kvs: [], count: 4 });
    expect((await remote.range({ ...all, keysOnly: true })).kvs[0]?.value).toHaveLength(0);
    expect(await names({ key: utf8("/g/secrets/x") })).toEqual([]);
    expect(await names({ ...all, revision: page.revision - 1 })).toEqual(["/g/a", "/g/b", "/g/t"]);
    await expect(remote.range({ key: utf8("/h") })).rejects.toMatchObject({ code: "access.denied" });
  });

  test("finds what is newer, and keeps a cache fresh past writes it cannot see", async () => {
    const { revision } = await backing.txn({ compare: [], success: [put("/g/b", "2")] });
    const newer = await remote.range({ ...all, minModRevision: revision });
    expect(newer.kvs.map((kv) => fromUtf8(kv.key))).toEqual(["/g/b"]);
    expect(newer.count).toBe(4);
    const records = await openRecords(remote, { prefix: "/g/", log: { error: () => undefined } });
    for (const key of ["/g/secrets/y", "/elsewhere"]) {
      await backing.txn({ compare: [], success: [put(key)] });
      await records.fresh();
      expect(records.revision()).toBe(await backing.revision());
    }
    await records.close();
  });

  test("runs transactions with every kind of comparison and answer", async () => {
    const key = utf8("/g/a");
    const kv = (await remote.range({ key })).kvs[0];
    const compare: Compare[] = [
      { key, result: "equal", target: "version", version: 1 },
      { key, result: "less", target: "createRevision", createRevision: 1_000 },
      { key, result: "equal", target: "modRevision", modRevision: kv?.modRevision ?? -1 },
      { key, result: "equal", target: "value", value: utf8("v") },
      { key, result: "equal", target: "lease", lease: 0n },
      { key: utf8("/g/own/"), end: utf8("/g/own0"), result: "less", target: "version", version: 9 },
    ];
    const { id } = await remote.leaseGrant(60);
    const done = await remote.txn({
      compare,
      success: [
        put("/g/a", "2", { prevKv: true, lease: id }),
        { type: "range", key },
        { type: "delete", key: utf8("/g/b"), prevKv: true },
        { type: "txn", compare: [], success: [put("/g/own/c")] },
      ],
      failure: [],
    });
    expect(done.succeeded).toBe(true);
    expect(done.responses.map((response) => response.type)).toEqual(["put", "range", "delete", "txn"]);
    expect(done.responses[0]).toMatchObject({ prevKv: { version: 1 } });
    expect(done.responses[2]).toMatchObject({ deleted: 1 });
    expect(await remote.leaseStatus(id)).toMatchObject({ grantedTtlSeconds: 60, keys: [key] });
    expect(await remote.leaseKeepAlive(id)).toBe(60);
    await remote.leaseRevoke(id);
    expect(await names({ key })).toEqual([]);
    await expect(remote.leaseKeepAlive(id)).rejects.toMatchObject({ code: "object.not_found" });
    expect(await remote.revision()).toBe(await backing.revision());
    const refused = await remote.txn({ compare, success: [], failure: [{ type: "range", key }] });
    expect(refused.succeeded).toBe(false);
    await expect(remote.compact(2)).rejects.toMatchObject({ code: "access.denied" });
    await expect(remote.leases()).rejects.toMatchObject({ code: "access.denied" });
  });

  test("keeps a peer to its own keys", async () => {
    const transport = transportWith(narrow);
    const other = storeOver(() => transport);
    await other.txn({ compare: [], success: [put("/g/own/1")] });
    await expect(other.txn({ compare: [], success: [put("/g/a")] })).rejects.toMatchObject({
      code: "access.denied",
    });
    await other.close();
  });

  test("watches without the hidden keys, and goes on where it was after a broken line", async () => {
    let broken = false;
    const transport = transportWith(guard);
    const dead = createRouterTransport((router) =>
      router.service(Watch, {
        // oxlint-disable-next-line require-yield -- the line breaks before anything comes
        async *watch() {
          broken = true;
          throw await Promise.resolve(new ConnectError("line broke", Code.Unavailable));
        },
      }),
    );
    const clock = new FakeClock();
    let current = transport;
    const store = storeOver(() => current, clock);
    const stop = new AbortController();
    const batches: WatchBatch[] = [];
    const start = await backing.revision();
    let restart = (): void => undefined;
    const cut = new Promise<void>((resolve) => {
      restart = resolve;
    });
    const watching = (async () => {
      for await (const batch of store.watch({
        ...all,
        prevKv: true,
        startRevision: start + 1,
        signal: stop.signal,
      })) {
        batches.push(batch);
        if (batch.type === "events" && batches.length === 2) restart();
      }
    })();
    await backing.txn({ compare: [], success: [put("/g/a", "new")] });
    await backing.txn({ compare: [], success: [put("/g/secrets/x", "new")] });
    await cut;
    current = dead;
    stop.abort();
    await watching;
    expect(batches[0]?.type).toBe("ready");
    const shown = batches.flatMap((batch) => (batch.type === "events" ? batch.events : []));
    expect(shown.map((event) => fromUtf8(event.kv.key))).toEqual(["/g/a"]);
    expect(shown[0]?.prevKv?.version).toBe(1);

    const again = new AbortController();
    const later: WatchBatch[] = [];
    const resumed = (async () => {
      for await (const batch of store.watch({ ...all, startRevision: start + 1, signal: again.signal })) {
        later.push(batch);
        if (batch.type === "events") again.abort();
      }
    })();
    await expect.poll(() => broken).toBe(true);
    current = transport;
    await clock.advance(600);
    await resumed;
    expect(later.map((batch) => batch.type)).toEqual(["ready", "events"]);
  });

  test("what is hidden is silence, and progress only for whoever wants to hear of it", async () => {
    const told = async (progress: boolean): Promise<string[]> => {
      const stop = new AbortController();
      const watching = new GuardedStore(backing, guard).watch({ ...all, progress, signal: stop.signal });
      const types: string[] = [];
      for await (const batch of watching) {
        types.push(batch.type);
        if (batch.type === "events") stop.abort();
        if (batch.type !== "ready") continue;
        await backing.txn({ compare: [], success: [put("/g/secrets/x", "new")] });
        // Later, so that both are no batch together.
        setTimeout(() => void backing.txn({ compare: [], success: [put("/g/a", "new")] }), 20);
      }
      return types;
    };
    expect(await told(false)).toEqual(["ready", "events"]);
    expect(await told(true)).toEqual(["ready", "progress", "events"]);
  });

  test("asks the store only for what its peer may see", async () => {
    const asked: (readonly string[])[] = [];
    const store = new Proxy(backing, {
      get: (target, name) =>
        name === "watch"
          ? (request: Parameters<Store["watch"]>[0]) => {
              asked.push((request.only ?? []).map((part) => fromUtf8(part.start)));
              return target.watch(request);
            }
          : (Reflect.get(target, name) as unknown),
    });
    const rules: PeerRules = { ...guard, only: ["/g/a/", "/g/t/"] };
    new GuardedStore(store, rules).watch({ ...all, signal: AbortSignal.abort() });
    expect(asked).toEqual([["/g/a/", "/g/t/"]]);
  });

  test("a gap ends the watch, a refusal is told", async () => {
    const revision = (await backing.txn({ compare: [], success: [put("/g/a", "3")] })).revision;
    await backing.compact(revision);
    const seen: string[] = [];
    const { signal } = new AbortController();
    for await (const batch of remote.watch({ ...all, startRevision: 1, signal })) seen.push(batch.type);
    expect(seen.at(-1)).toBe("gap");
    const refused = remote.watch({ key: utf8("/x"), signal })[Symbol.asyncIterator]();
    await expect(refused.next()).rejects.toMatchObject({ code: "access.denied" });
  });

  test("feeds a records cache, which never sees a secret", async () => {
    const records = await openRecords(remote, { prefix: "/g/", log: { error: () => undefined } });
    const def = { prefix: "/g/own/", decode: (json: unknown) => json as number };
    await records.transact((tx) => tx.put(def, "n", 5));
    expect(records.collection(def).get("n")?.value).toBe(5);
    await records.close();
  });

  test("a peer with few rights writes and deletes records in its own corner", async () => {
    const mine: PeerRules = {
      ...peer,
      read: ["/g/"],
      hidden: ["/g/secrets/"],
      write: ["/g/own/", "/g/.deleted/own/", "/g/.commit/node-n1/"],
    };
    const transport = transportWith(mine);
    const store = storeOver(() => transport);
    const errors: string[] = [];
    const records = await openRecords(store, {
      prefix: "/g/",
      corner: "node-n1",
      log: { error: (_fields, message) => errors.push(message) },
    });
    const def = { prefix: "/g/own/", decode: (json: unknown) => json as number };
    await records.transact((tx) => tx.put(def, "n", 5));
    await records.transact((tx) => tx.delete(def, "n"));
    expect(records.collection(def).list()).toEqual([]);
    const foreign = { prefix: "/g/other/", decode: (json: unknown) => json as number };
    await expect(records.transact((tx) => tx.put(foreign, "n", 5))).rejects.toMatchObject({
      code: "access.denied",
    });
    expect(errors).toEqual([]);
    await records.close();
    await store.close();
  });

  test("a line that is down is an unavailable store", async () => {
    const link = linkOver(
      "https://server",
      () => createRouterTransport(() => undefined),
      () => "no line to this server yet",
    );
    const store = etcdStoreOver([link], { deadlineMs: 300 });
    await expect(store.range(all)).rejects.toThrow(/https:\/\/server \(no line to this server yet\)/);
    await store.close();
  });
});
