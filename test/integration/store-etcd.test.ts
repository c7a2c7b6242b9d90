// The etcd adapter against real members: the conformance suite on one and on three, then trouble.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "@gpve/store/port.ts";
import { fromUtf8, prefixEnd, utf8 } from "@gpve/store/keys.ts";
import { campaign, leads } from "@gpve/store/election/election.ts";
import { openSession } from "@gpve/store/election/session.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import type { CollectionDef } from "@gpve/store/records/port.ts";
import { openWatch, storeConformance } from "@gpve/store/testing/conformance.ts";
import { type EtcdCluster, etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { networkMissing } from "@gpve/store/testing/member-network.ts";

if (etcdMissing !== undefined) console.error(`SKIPPED store-etcd: ${etcdMissing}`);

const log = { error: () => undefined };

describe.skipIf(etcdMissing !== undefined)("etcd store", () => {
  for (const [members, tls] of [
    [1, false],
    [3, true],
  ] as const) {
    storeConformance(
      `${members} etcd ${members === 1 ? "member" : "members"}${tls ? ", TLS" : ""}`,
      async () => {
        const cluster = await startEtcd({ members, tls });
        const store = cluster.open();
        return {
          store,
          close: async () => {
            await store.close();
            await cluster.stop();
          },
          pass: (seconds) => sleep(seconds * 1_000),
        };
      },
    );
  }

  describe("three members with trouble", () => {
    let cluster: EtcdCluster;
    beforeAll(async () => {
      cluster = await startEtcd({ members: 3, tls: true });
    });
    afterAll(async () => {
      await cluster.stop();
    });

    it("refuses a client without a certificate, naming the endpoints", async () => {
      const { openEtcdStore } = await import("@gpve/store/etcd/etcd-store.ts");
      const store = openEtcdStore({
        endpoints: cluster.endpoints,
        tls: { ca: cluster.tls?.ca ?? "" },
        deadlineMs: 1_500,
      });
      await expect(store.revision()).rejects.toMatchObject({ code: "store.unavailable" });
      await expect(store.revision()).rejects.toThrow(cluster.endpoints[0]);
      await store.close();
    });

    it("tolerates endpoints that are wrong or dead", async () => {
      const store = cluster.open({
        endpoints: ["https://127.0.0.1:1", "https://nowhere.invalid:2379", ...cluster.endpoints],
      });
      await store.txn({ compare: [], success: [{ type: "put", key: utf8("/ok"), value: utf8("1") }] });
      expect((await store.range({ key: utf8("/ok") })).count).toBe(1);
      await store.close();
    });

    it("loses no acknowledged write and repeats no event while members die, return and hang", async () => {
      const writer = cluster.open();
      const reader = cluster.open();
      const prefix = utf8("/trouble/");
      const watch = openWatch(reader, { key: prefix, end: prefixEnd(prefix) });
      await watch.next();
      const acknowledged: string[] = [];
      let unknown = 0;
      let over = false;
      const writing = (async () => {
        for (let i = 0; !over; i++) {
          const key = `/trouble/${String(i).padStart(6, "0")}`;
          try {
            await writer.txn({ compare: [], success: [{ type: "put", key: utf8(key), value: utf8(key) }] });
            acknowledged.push(key);
          } catch (err) {
            expect(err).toMatchObject({ code: "store.unavailable" });
            unknown++;
          }
          await sleep(2);
        }
      })();
      const [a, b, c] = cluster.members;
      if (a === undefined || b === undefined || c === undefined) throw new Error("three members expected");
      for (const member of [a, b, c]) {
        await sleep(500);
        await member.kill();
        await sleep(1_500);
        member.start();
        await sleep(2_000);
        member.pause();
        await sleep(6_000);
        member.resume();
        await sleep(1_000);
      }
      over = true;
      await writing;
      const stored = await readKeys(writer, "/trouble/");
      expect(acknowledged.length).toBeGreaterThan(500);
      expect(acknowledged.filter((key) => !stored.has(key))).toEqual([]);
      const events = await watch.events(stored.size);
      const revisions = events.map((event) => event.kv.modRevision);
      expect(revisions).toEqual([...new Set(revisions)].toSorted((x, y) => x - y));
      expect(events.map((event) => fromUtf8(event.kv.key)).toSorted()).toEqual([...stored].toSorted());
      console.log(`trouble: ${acknowledged.length} acknowledged, ${unknown} unknown, ${stored.size} stored`);
      await watch.stop();
      await writer.close();
      await reader.close();
    });

    it("says store.unavailable without quorum and recovers with it", async () => {
      const store = cluster.open({ deadlineMs: 2_000, attemptMs: 800 });
      const [a, b] = cluster.members;
      await a?.kill();
      await b?.kill();
      await expect(store.revision()).rejects.toMatchObject({ code: "store.unavailable" });
      await expect(
        store.txn({ compare: [], success: [{ type: "put", key: utf8("/q"), value: utf8("") }] }),
      ).rejects.toMatchObject({ code: "store.unavailable" });
      a?.start();
      b?.start();
      await expect.poll(() => store.revision().catch(() => 0), { timeout: 150_000 }).toBeGreaterThan(0);
      await store.close();
    });
  });

  if (networkMissing !== undefined) console.error(`SKIPPED store-etcd, members cut off: ${networkMissing}`);
  describe.skipIf(networkMissing !== undefined)("three members, one cut off from the others", () => {
    let cluster: EtcdCluster;
    beforeAll(async () => {
      cluster = await startEtcd({ members: 3, separate: true });
    });
    afterAll(async () => {
      await cluster.stop();
    });

    it("leaves the lonely member, loses nothing and repeats nothing", async () => {
      const prefix = utf8("/cut/");
      const writer = cluster.open();
      // Each watch begins at another member, so that one of them is at the member that is cut off.
      const readers = cluster.endpoints.map((_, i) =>
        cluster.open({ endpoints: [...cluster.endpoints.slice(i), ...cluster.endpoints.slice(0, i)] }),
      );
      const watches = readers.map((reader) => openWatch(reader, { key: prefix, end: prefixEnd(prefix) }));
      for (const watch of watches) await watch.next();
      const seen: { key: string; revision: number }[][] = watches.map(() => []);
      const collecting = watches.map(async (watch, i) => {
        for (let batch = await watch.next(); batch !== undefined; batch = await watch.next()) {
          if (batch.type !== "events") continue;
          for (const { kv } of batch.events) {
            seen[i]?.push({ key: fromUtf8(kv.key), revision: kv.modRevision });
          }
        }
      });
      const acknowledged: string[] = [];
      let over = false;
      const writing = (async () => {
        for (let i = 0; !over; i++) {
          const key = `/cut/${String(i).padStart(6, "0")}`;
          try {
            await writer.txn({ compare: [], success: [{ type: "put", key: utf8(key), value: utf8(key) }] });
            acknowledged.push(key);
          } catch (err) {
            expect(err).toMatchObject({ code: "store.unavailable" });
          }
          await sleep(2);
        }
      })();
      for (const member of cluster.members) {
        await sleep(500);
        await member.cutOff();
        await sleep(5_000);
        // All watches are up to date, that of the lonely member too: it has moved to another one.
        const known = acknowledged.length;
        await expect
          .poll(() => Math.min(...seen.map((events) => events.length)), { timeout: 150_000 })
          .toBeGreaterThanOrEqual(known);
        await member.rejoin();
        await sleep(1_500);
      }
      over = true;
      await writing;
      const stored = await readKeys(writer, "/cut/");
      expect(acknowledged.length).toBeGreaterThan(300);
      expect(acknowledged.filter((key) => !stored.has(key))).toEqual([]);
      await expect.poll(() => Math.min(...seen.map((events) => events.length))).toBe(stored.size);
      for (const watch of watches) watch.controller.abort();
      await Promise.all(collecting);
      for (const events of seen) {
        const revisions = events.map(({ revision }) => revision);
        expect(revisions).toEqual([...new Set(revisions)].toSorted((x, y) => x - y));
        expect(new Set(events.map(({ key }) => key))).toEqual(stored);
      }
      console.log(`cut off: ${acknowledged.length} acknowledged, ${stored.size} stored`);
      for (const store of [writer, ...readers]) await store.close();
    });
  });

  describe("election on three members", () => {
    it("never has two leaders, through the death of members and of leaders", async () => {
      const cluster = await startEtcd({ members: 3 });
      const stores = [cluster.open(), cluster.open(), cluster.open()];
      const tokens: number[] = [];
      let leading = 0;
      const turn = async (store: Store, value: string): Promise<void> => {
        const session = await openSession(store, { ttlSeconds: 5, log });
        const leader = await campaign({ store, session, name: "/leaders/test/", value });
        leading++;
        expect(leading).toBe(1);
        tokens.push(leader.token);
        try {
          const { succeeded } = await store.txn({
            compare: [leads(leader)],
            success: [{ type: "put", key: utf8("/work"), value: utf8(value) }],
          });
          expect(succeeded).toBe(true);
          await sleep(100);
        } finally {
          leading--;
          await session.close();
        }
      };
      try {
        const terms = Array.from({ length: 12 }, (_, i) => turn(stores[i % 3] ?? cluster.open(), String(i)));
        await sleep(400);
        await cluster.members[1]?.kill();
        await sleep(300);
        cluster.members[1]?.start();
        const outcomes = await Promise.allSettled(terms);
        const failures = outcomes.filter((outcome) => outcome.status === "rejected");
        // The write in flight may lose its answer to the kill; nothing else may fail.
        expect(failures.length).toBeLessThanOrEqual(1);
        for (const { reason } of failures) expect(reason).toMatchObject({ code: "store.unavailable" });
        expect(tokens).toEqual([...new Set(tokens)].toSorted((a, b) => a - b));
      } finally {
        for (const store of stores) await store.close();
        await cluster.stop();
      }
    });
  });

  describe("records on three members", () => {
    const counters: CollectionDef<number> = { prefix: "/gpve/n/", decode: Number };
    let cluster: EtcdCluster;
    beforeAll(async () => {
      cluster = await startEtcd({ members: 3 });
    });
    afterAll(async () => {
      await cluster.stop();
    });

    it("counts right through the death of a member, as two servers", async () => {
      const stores = [cluster.open(), cluster.open()];
      const servers = await Promise.all(stores.map((store) => openRecords(store, { prefix: "/gpve/", log })));
      let sum = 0;
      const work = servers.map(async (records) => {
        for (let i = 0; i < 200; i++) {
          await records.transact((tx) => tx.put(counters, "x", (tx.get(counters, "x")?.value ?? 0) + 1));
          sum++;
        }
      });
      const trouble = (async () => {
        const [first, second] = cluster.members;
        await sleep(150);
        await first?.kill();
        await sleep(300);
        first?.start();
        await sleep(1_500);
        second?.pause();
        await sleep(3_000);
        second?.resume();
      })();
      await Promise.all([...work, trouble]);
      for (const records of servers) {
        await records.fresh();
        expect(records.collection(counters).get("x")?.value).toBe(sum);
      }
      // Writes elsewhere in the cluster do not make a read wait for its limit.
      await stores[0]?.txn({ compare: [], success: [{ type: "put", key: utf8("/else"), value: utf8("") }] });
      const started = performance.now();
      await servers[1]?.fresh();
      expect(performance.now() - started).toBeLessThan(9_000);
      for (const records of servers) await records.close();
      for (const store of stores) await store.close();
    });
  });
});

async function readKeys(store: Store, prefix: string): Promise<Set<string>> {
  const key = utf8(prefix);
  const { kvs } = await store.range({ key, end: prefixEnd(key), keysOnly: true });
  return new Set(kvs.map((kv) => fromUtf8(kv.key)));
}
