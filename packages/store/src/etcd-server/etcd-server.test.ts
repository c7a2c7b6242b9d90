import { Code, ConnectError } from "@connectrpc/connect";
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { fromUtf8, prefixEnd, utf8 } from "../keys.ts";
import type { Store } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { openEtcdStore } from "../etcd/etcd-store.ts";
import { type EtcdClient, connectEtcd } from "../testing/etcd-client.ts";
import { WatchLine } from "../testing/etcd-watch-line.ts";
import { openWatch } from "../testing/conformance.ts";
import { type EtcdListener, listenEtcd } from "./listen.ts";

let store: Store;
let clock: FakeClock;
let listener: EtcdListener;
let client: EtcdClient;
const extra: (() => Promise<void>)[] = [];

const serve = async (behind: Store): Promise<{ client: EtcdClient; url: string }> => {
  const other = await listenEtcd({ store: behind, name: "other", listen: { host: "127.0.0.1", port: 0 } });
  const made = connectEtcd(other.url);
  extra.push(async () => {
    made.close();
    await other.close();
  });
  return { client: made, url: other.url };
};

beforeEach(async () => {
  clock = new FakeClock();
  store = openSqliteStore({ path: ":memory:" });
  listener = await listenEtcd({
    store,
    clock,
    name: "one",
    listen: { host: "127.0.0.1", port: 0 },
    progressNotifyMs: 1_000,
  });
  client = connectEtcd(listener.url);
});
afterEach(async () => {
  for (const close of extra.splice(0)) await close();
  client.close();
  await listener.close();
  await store.close();
});

const put = async (key: string, value = "x"): Promise<bigint> =>
  (await client.kv.put({ key: utf8(key), value: utf8(value) })).header?.revision ?? 0n;
const refused = async (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => "done",
    (err: unknown) => (err instanceof ConnectError ? `${Code[err.code]}: ${err.rawMessage}` : String(err)),
  );
const all = { key: utf8("/"), rangeEnd: utf8("0") };

describe("etcd's KV on a store", () => {
  it("filters, sorts and cuts as etcd does, and keeps values out where only keys are wanted", async () => {
    for (const [key, value] of [
      ["/a", "3"],
      ["/b", "1"],
      ["/c", "2"],
      ["/b", "1"],
    ] as const) {
      await put(key, value);
    }
    const keys = async (request: object): Promise<string> => {
      const { kvs, more } = await client.kv.range({ ...all, ...request });
      return kvs.map((kv) => fromUtf8(kv.key)).join(" ") + (more ? " +" : "");
    };
    expect(await keys({ sortTarget: 4, sortOrder: 1 })).toBe("/b /c /a");
    expect(await keys({ sortTarget: 4, sortOrder: 2, limit: 2n })).toBe("/a /c +");
    expect(await keys({ sortTarget: 3, sortOrder: 2, limit: 1n })).toBe("/b +");
    expect(await keys({ sortTarget: 1, limit: 2n })).toBe("/a /c +");
    expect(await keys({ minCreateRevision: 3n, maxModRevision: 4n })).toBe("/c");
    expect(await keys({ maxCreateRevision: 2n })).toBe("/a");
    expect(await keys({ sortOrder: 2, limit: 2n })).toBe("/c /b +");
    const only = await client.kv.range({ ...all, sortTarget: 4, keysOnly: true });
    expect(only.kvs.map((kv) => kv.value.length)).toEqual([0, 0, 0]);
    expect(only.count).toBe(3n);
    expect(await refused(client.kv.range({ ...all, sortTarget: 9 }))).toBe(
      "InvalidArgument: etcdserver: invalid sort option",
    );
  });

  it("refuses in etcd's words", async () => {
    expect(await refused(client.kv.range({}))).toBe("InvalidArgument: etcdserver: key is not provided");
    expect(await refused(client.kv.put({ key: utf8("/n"), ignoreValue: true, lease: 9n }))).toBe(
      "NotFound: etcdserver: requested lease not found",
    );
    expect(await refused(client.kv.put({ key: utf8("/n"), ignoreValue: true }))).toBe(
      "InvalidArgument: etcdserver: key not found",
    );
    expect(await refused(client.kv.txn({ success: [{}] }))).toBe(
      "InvalidArgument: etcdserver: key not found",
    );
    expect(await refused(client.kv.txn({ compare: [{ key: utf8("a"), target: 9 }] }))).toMatch(
      /^InvalidArgument/,
    );
    expect(await refused(client.kv.txn({ compare: [{ key: utf8("a"), result: 9 }] }))).toMatch(
      /^InvalidArgument/,
    );
    expect(await refused(client.kv.compact({ revision: 99n }))).toBe(
      "OutOfRange: etcdserver: mvcc: required revision is a future revision",
    );
    expect(await refused(client.kv.put({ key: utf8("/a"), value: new Uint8Array(3_000_000) }))).toMatch(
      /^ResourceExhausted/,
    );
  });

  it("passes on what the store behind it says, or that it is gone", async () => {
    const { client: outer } = await serve(openEtcdStore({ endpoints: [listener.url] }));
    const revision = await put("/a");
    await put("/a", "y");
    await client.kv.compact({ revision: revision + 1n, physical: true });
    expect(await refused(outer.kv.range({ ...all, revision: 2n }))).toBe(
      "OutOfRange: etcdserver: mvcc: required revision has been compacted",
    );
    expect(await refused(outer.lease.leaseRevoke({ id: 5n }))).toBe(
      "NotFound: etcdserver: requested lease not found",
    );
    expect(await refused(outer.maintenance.defragment({}))).toMatch(
      /^Unimplemented: .*kept up where its data is/,
    );
    expect((await outer.maintenance.status({})).dbSize).toBe(0n);
    const closed = openSqliteStore({ path: ":memory:" });
    const { client: gone } = await serve(closed);
    await closed.close();
    expect(await refused(gone.kv.range(all))).toMatch(/^Unavailable: .*closed/);
  });

  it("tells a caller that he may not, in etcd's words to etcd's clients and in ours to ours", async () => {
    const no = (): never => {
      throw new AppError("access.denied", "this peer may not read /a");
    };
    const { client: outer, url } = await serve({ ...bound(store), range: no, watch: no });
    expect(await refused(outer.kv.range(all))).toBe("PermissionDenied: etcdserver: permission denied");
    const line = new WatchLine(outer);
    line.create({ key: utf8("/a") });
    expect(await line.next()).toMatchObject({ created: true, canceled: true, watchId: -1n });
    line.close();
    const ours = openEtcdStore({ endpoints: [url] });
    extra.unshift(() => ours.close());
    await expect(ours.range({ key: utf8("/a") })).rejects.toMatchObject({
      code: "access.denied",
      message: "this peer may not read /a",
    });
    await expect(openWatch(ours, { key: utf8("/a") }).next()).rejects.toMatchObject({
      code: "access.denied",
    });
  });
});

describe("etcd's watches on a store", () => {
  it("carries many watches on one line, with filters, numbers of their own and cancelling", async () => {
    const line = new WatchLine(client);
    line.create({ ...all, filters: [0] });
    line.create({ ...all, filters: [1], watchId: 9n });
    expect((await line.until(({ watchId }) => watchId === 9n)).map(({ created }) => created)).toEqual([
      true,
      true,
    ]);
    await put("/a");
    await client.kv.deleteRange({ key: utf8("/a") });
    const answers = await line.until(({ watchId }) => watchId === 0n);
    expect(answers.flatMap(({ watchId, events }) => events.map(({ type }) => `${watchId} ${type}`))).toEqual([
      "9 0",
      "0 1",
    ]);
    line.create({ key: utf8("/a"), watchId: 9n });
    expect((await line.next()).cancelReason).toContain("duplicate watch ID");
    line.create({ key: utf8("/b"), rangeEnd: utf8("/a") });
    expect((await line.next()).cancelReason).toContain("range is empty");
    line.cancel(9n);
    line.cancel(1_000n);
    expect(await line.next()).toMatchObject({ canceled: true, watchId: 9n });
    await put("/b");
    line.create({ key: new Uint8Array(0), rangeEnd: Uint8Array.of(0), startRevision: 2n });
    const replay = await line.until(({ events }) => events.length > 0);
    expect(replay.at(-1)?.events.length).toBe(3);
    line.close();
  });

  it("answers a request for progress after all events up to it, and not before a watch has begun", async () => {
    const line = new WatchLine(client);
    line.progress();
    line.create({ ...all });
    line.create({ key: utf8("other") });
    await line.until(({ watchId }) => watchId === 1n);
    const writes = Array.from({ length: 50 }, (_, i) => put(`/${i}`));
    line.progress();
    line.progress();
    const revisions = await Promise.all(writes);
    const newest = Number(revisions.at(-1));
    let events = 0;
    for (let progress = 0; progress < newest;) {
      line.progress();
      for (const answer of await line.until(({ watchId }) => watchId === -1n)) {
        events += answer.events.length;
        if (answer.watchId !== -1n) continue;
        progress = Number(answer.header?.revision);
        expect(events).toBe(progress - 1);
      }
    }
    expect(events).toBe(50);
    line.create({ ...all, startRevision: BigInt(newest + 2) });
    await line.until(({ created }) => created);
    line.progress();
    await put("/x");
    await put("/y");
    const [first] = await line.until(({ events: told }) => told.length > 0);
    expect(first?.watchId).toBe(0n);
    line.close();
  });

  it("tells a quiet watch that wants it how far the store is, now and then", async () => {
    const line = new WatchLine(client);
    line.create({ key: utf8("quiet"), progressNotify: true });
    line.create({ ...all });
    await line.until(({ watchId }) => watchId === 1n);
    const revision = await put("/a");
    await line.until(({ events }) => events.length > 0);
    await clock.advance(1_000);
    expect(await line.next()).toMatchObject({ watchId: 0n, events: [], header: { revision } });
    await put("quiet");
    await line.until(({ watchId, events }) => watchId === 0n && events.length > 0);
    await clock.advance(1_000);
    const next = line.next();
    await clock.advance(1_000);
    expect((await next).header?.revision).toBe(revision + 1n);
    line.close();
  });

  it("sends what is too large for one message in parts, when asked to", async () => {
    for (const key of ["/1", "/2", "/3"]) await put(key, "x".repeat(1_000_000));
    const line = new WatchLine(client);
    line.create({ ...all, startRevision: 2n, fragment: true });
    const answers = await line.until(({ events, fragment }) => events.length > 0 && !fragment);
    expect(answers.map(({ events, fragment }) => `${events.length} ${fragment}`)).toEqual([
      "0 false",
      "2 true",
      "1 false",
    ]);
    line.close();
  });

  it("holds a watch back whose reader is slow, and loses nothing of it", async () => {
    const line = new WatchLine(client);
    line.create({ ...all, prevKv: true });
    await line.next();
    const value = "x".repeat(100_000);
    for (let i = 0; i < 150; i++) {
      await store.txn({
        compare: [],
        success: [{ type: "put", key: utf8("/slow"), value: utf8(`${i}${value}`) }],
      });
    }
    let events = 0;
    while (events < 150) events += (await line.next()).events.length;
    expect(events).toBe(150);
    line.close();
  });

  it("ends with the store, and with its reader", async () => {
    const line = new WatchLine(client);
    line.create({ ...all });
    await line.next();
    await store.close();
    await expect(line.next()).rejects.toMatchObject({ code: Code.Unavailable });
  });

  it("our own client asks a member for progress too", async () => {
    const { url } = await serve(store);
    const ours = openEtcdStore({ endpoints: [url] });
    extra.unshift(() => ours.close());
    const controller = new AbortController();
    const watching = ours.watch({ key: utf8("/"), end: prefixEnd(utf8("/")), signal: controller.signal });
    const batches = watching[Symbol.asyncIterator]();
    expect((await batches.next()).value).toEqual({ type: "ready", revision: 1 });
    for (const revision of [1, 2]) {
      watching.requestProgress();
      expect((await batches.next()).value).toEqual({ type: "progress", revision });
      await store.txn({ compare: [], success: [{ type: "put", key: utf8("elsewhere"), value: utf8("") }] });
    }
    controller.abort();
  });
});

describe("etcd's other services on a store", () => {
  it("keeps leases, gives at least two seconds, and lists them", async () => {
    expect((await client.lease.leaseGrant({ ttl: 1n, id: 5n })).ttl).toBe(2n);
    expect((await client.lease.leaseLeases({})).leases.map(({ id }) => id)).toEqual([5n]);
    expect(await store.leases()).toEqual([5n]);
    const one = async function* () {
      yield { id: 5n };
      yield { id: 6n };
    };
    const kept: bigint[] = [];
    for await (const { ttl } of client.lease.leaseKeepAlive(one())) kept.push(ttl);
    expect(kept).toEqual([2n, 0n]);
    expect((await client.lease.leaseTimeToLive({ id: 6n, keys: true })).ttl).toBe(-1n);
    expect(await refused(client.lease.leaseGrant({ ttl: 9_000_000_001n }))).toBe(
      "OutOfRange: etcdserver: too large lease TTL",
    );
    await client.lease.leaseRevoke({ id: 5n });
    expect(await refused(client.lease.leaseRevoke({ id: 5n }))).toMatch(/^NotFound/);
  });

  it("says who it is and how large, gives room back, and sums up its history", async () => {
    const { members } = await client.cluster.memberList({});
    expect(members).toMatchObject([{ name: "one", clientUrls: [listener.url] }]);
    for (let i = 0; i < 40; i++) await put("/a", `${i}${"x".repeat(50_000)}`);
    const before = await client.maintenance.status({});
    await client.kv.compact({ revision: 40n, physical: true });
    await client.maintenance.defragment({});
    const after = await client.maintenance.status({});
    expect(after.dbSize).toBeLessThan(before.dbSize / 4n);
    const hash = await client.maintenance.hashKV({});
    expect(hash).toMatchObject({ hashRevision: 41n, compactRevision: 40n });
    await put("/b");
    expect((await client.maintenance.hashKV({ revision: 41n })).hash).toBe(hash.hash);
    expect((await client.maintenance.hash({})).hash).not.toBe(hash.hash);
    expect(await refused(client.maintenance.hashKV({ revision: 2n }))).toMatch(/compacted/);
    expect(await refused(client.maintenance.hashKV({ revision: 99n }))).toMatch(/future/);
    expect((await client.maintenance.alarm({ action: 2 })).alarms).toEqual([]);
  });

  it("refuses the rest with a reason", async () => {
    expect(await refused(client.maintenance.alarm({ action: 1 }))).toMatch(/^Unimplemented/);
    expect(await refused(client.maintenance.moveLeader({}))).toMatch(/^Unimplemented: .*one member/);
    expect(await refused(client.maintenance.downgrade({}))).toMatch(/^Unimplemented/);
    expect(await refused(client.cluster.memberRemove({}))).toMatch(/^Unimplemented/);
    expect(await refused(client.auth.authenticate({}))).toBe(
      "FailedPrecondition: etcdserver: authentication is not enabled",
    );
    expect((await client.auth.authStatus({})).enabled).toBe(false);
    expect(await refused(client.auth.userAdd({}))).toMatch(/^Unimplemented: .*no users/);
    const snapshot = client.maintenance.snapshot({})[Symbol.asyncIterator]();
    expect(await refused(snapshot.next())).toMatch(/^Unimplemented: .*gpvectl store backup/);
  });

  it("listens on a socket file too", async () => {
    const dir = mkdtempSync(join(tmpdir(), "gpve-etcd-socket-"));
    const path = join(dir, "etcd.sock");
    const other = await listenEtcd({ store, name: "file", listen: { path } });
    expect(other.url).toBe(`unix://${path}`);
    const socket = createConnection(path);
    await new Promise((resolve) => socket.once("connect", resolve));
    socket.destroy();
    await other.close();
    rmSync(dir, { recursive: true });
    await expect(
      listenEtcd({ store, name: "x", listen: { path: "/nowhere/at/all.sock" } }),
    ).rejects.toThrow();
  });
});

/** The same store with methods that can be replaced. */
function bound(inner: Store): Store {
  return {
    range: (...args) => inner.range(...args),
    txn: (...args) => inner.txn(...args),
    watch: (request) => inner.watch(request),
    revision: (options) => inner.revision(options),
    compact: (...args) => inner.compact(...args),
    leaseGrant: (...args) => inner.leaseGrant(...args),
    leaseKeepAlive: (id) => inner.leaseKeepAlive(id),
    leaseRevoke: (id) => inner.leaseRevoke(id),
    leaseStatus: (id) => inner.leaseStatus(id),
    leases: () => inner.leases(),
    close: () => inner.close(),
  };
}
