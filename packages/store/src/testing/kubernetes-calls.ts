// The calls that the storage layer of a Kubernetes API server makes, in its order and with its options. Runs on our
// server and on a real etcd: what holds for one must hold for the other.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ConnectError } from "@connectrpc/connect";
import type { KeyValue, TxnResponse } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { fromUtf8, keyAfter, prefixEnd, utf8 } from "../keys.ts";
import type { EtcdClient } from "./etcd-client.ts";
import { WatchLine } from "./etcd-watch-line.ts";

export interface KubernetesTarget {
  readonly client: EtcdClient;
  readonly close: () => Promise<void>;
}

const GET = (key: string) => ({ request: { case: "requestRange", value: { key: utf8(key) } } }) as const;
const PODS = utf8("/registry/pods/");

export function kubernetesCalls(name: string, open: () => Promise<KubernetesTarget>): void {
  describe(`a Kubernetes API server's calls: ${name}`, () => {
    let target: KubernetesTarget;
    let client: EtcdClient;
    beforeAll(async () => {
      target = await open();
      ({ client } = target);
    });
    afterAll(() => target.close());

    /** OptimisticPut: written when the key is still as it was seen; otherwise what is there now. */
    const optimisticPut = (
      key: string,
      value: string,
      modRevision: bigint,
      lease = 0n,
    ): Promise<TxnResponse> =>
      client.kv.txn({
        compare: [
          { key: utf8(key), target: 2, result: 0, targetUnion: { case: "modRevision", value: modRevision } },
        ],
        success: [{ request: { case: "requestPut", value: { key: utf8(key), value: utf8(value), lease } } }],
        failure: modRevision === 0n ? [] : [GET(key)],
      });
    const optimisticDelete = (key: string, modRevision: bigint): Promise<TxnResponse> =>
      client.kv.txn({
        compare: [
          { key: utf8(key), target: 2, result: 0, targetUnion: { case: "modRevision", value: modRevision } },
        ],
        success: [{ request: { case: "requestDeleteRange", value: { key: utf8(key) } } }],
        failure: [GET(key)],
      });
    const found = (answer: TxnResponse): KeyValue | undefined => {
      const [first] = answer.responses;
      return first?.response.case === "responseRange" ? first.response.value.kvs[0] : undefined;
    };
    const pod = (n: number): string => `/registry/pods/default/p${String(n).padStart(3, "0")}`;

    it("creates once, updates and deletes only what it has seen", async () => {
      const made = await optimisticPut(pod(0), "v1", 0n);
      expect(made.succeeded).toBe(true);
      expect((await optimisticPut(pod(0), "again", 0n)).succeeded).toBe(false);
      const revision = made.header?.revision ?? 0n;
      const updated = await optimisticPut(pod(0), "v2", revision);
      expect(updated.succeeded).toBe(true);
      const late = await optimisticPut(pod(0), "v3", revision);
      expect(late.succeeded).toBe(false);
      expect(fromUtf8(found(late)?.value ?? utf8(""))).toBe("v2");
      expect(found(await optimisticDelete(pod(0), revision))?.modRevision).toBe(updated.header?.revision);
      expect((await optimisticDelete(pod(0), updated.header?.revision ?? 0n)).succeeded).toBe(true);
      expect((await client.kv.range({ key: utf8(pod(0)) })).kvs).toEqual([]);
    });

    it("lists in pages at one revision while others write", async () => {
      for (let i = 1; i <= 25; i++) await optimisticPut(pod(i), `v${i}`, 0n);
      const rangeEnd = prefixEnd(PODS);
      const keys: string[] = [];
      let key = PODS;
      let revision = 0n;
      let left = 0n;
      for (let more = true; more;) {
        const page = await client.kv.range({ key, rangeEnd, limit: 10n, revision });
        revision ||= page.header?.revision ?? 0n;
        left = page.count - BigInt(page.kvs.length);
        keys.push(...page.kvs.map((kv) => fromUtf8(kv.key)));
        await optimisticPut(pod(100 + keys.length), "later", 0n);
        key = keyAfter(page.kvs.at(-1)?.key ?? PODS);
        ({ more } = page);
      }
      expect(keys).toEqual(Array.from({ length: 25 }, (_, i) => pod(i + 1)));
      expect(left).toBe(0n);
      const counted = await client.kv.range({ key: PODS, rangeEnd, countOnly: true });
      expect(counted.count).toBe(28n);
      expect(counted.kvs).toEqual([]);
    });

    it("watches from the list's revision with what was there before, and hears of bookmarks", async () => {
      const rangeEnd = prefixEnd(PODS);
      const list = await client.kv.range({ key: PODS, rangeEnd, limit: 1n });
      const from = list.header?.revision ?? 0n;
      const line = new WatchLine(client);
      line.create({ key: PODS, rangeEnd, startRevision: from + 1n, prevKv: true, progressNotify: true });
      await line.until(({ created }) => created);
      const first = list.kvs[0];
      await client.kv.deleteRange({ key: first?.key ?? PODS });
      const [gone] = (await line.until(({ events }) => events.length > 0)).at(-1)?.events ?? [];
      expect(gone?.type).toBe(1);
      expect(gone?.prevKv?.value).toEqual(first?.value);
      expect(gone?.kv?.modRevision).toBe(from + 1n);
      // Consistent reads from cache: what is asked after a read speaks of at least that revision.
      const other = await client.kv.put({ key: utf8("/registry/leases/x"), value: utf8("y") });
      line.progress();
      const progress = (await line.until(({ watchId }) => watchId === -1n)).at(-1);
      expect(progress?.header?.revision).toBe(other.header?.revision);
      line.close();
    });

    it("shares one lease among events, whose keys end with it", async () => {
      const { id, ttl } = await client.lease.leaseGrant({ ttl: 3_660n });
      expect(ttl).toBe(3_660n);
      for (let i = 0; i < 5; i++) await optimisticPut(`/registry/events/e${i}`, "x", 0n, id);
      const status = await client.lease.leaseTimeToLive({ id, keys: true });
      expect(status.keys.length).toBe(5);
      await client.lease.leaseRevoke({ id });
      const events = utf8("/registry/events/");
      expect((await client.kv.range({ key: events, rangeEnd: prefixEnd(events) })).count).toBe(0n);
    });

    it("agrees with other servers on who compacts, and refuses what is gone", async () => {
      const compactor = (version: bigint, revision: string): Promise<TxnResponse> =>
        client.kv.txn({
          compare: [
            {
              key: utf8("compact_rev_key"),
              target: 0,
              result: 0,
              targetUnion: { case: "version", value: version },
            },
          ],
          success: [
            {
              request: { case: "requestPut", value: { key: utf8("compact_rev_key"), value: utf8(revision) } },
            },
          ],
          failure: [GET("compact_rev_key")],
        });
      const old = (await compactor(0n, "0")).header?.revision ?? 0n;
      const lost = await compactor(0n, "0");
      expect(lost.succeeded).toBe(false);
      expect(found(lost)?.version).toBe(1n);
      const { header } = await compactor(1n, String(old));
      await client.kv.compact({ revision: header?.revision ?? 0n });
      const refused = async (work: Promise<unknown>): Promise<string> =>
        work.then(
          () => "done",
          (err: unknown) => (err instanceof ConnectError ? `${err.code} ${err.rawMessage}` : String(err)),
        );
      expect(await refused(client.kv.range({ key: PODS, revision: old }))).toBe(
        "11 etcdserver: mvcc: required revision has been compacted",
      );
      const line = new WatchLine(client);
      line.create({ key: PODS, rangeEnd: prefixEnd(PODS), startRevision: old });
      const end = (await line.until(({ canceled }) => canceled)).at(-1);
      expect(end?.compactRevision).toBe(header?.revision);
      line.close();
    });

    it("finds the store healthy and new enough", async () => {
      const status = await client.maintenance.status({});
      expect(status.version).toMatch(/^3\.\d+\.\d+$/);
      expect(status.leader).toBe(status.header?.memberId);
      expect(status.dbSize).toBeGreaterThan(0n);
      expect((await client.maintenance.alarm({})).alarms).toEqual([]);
      expect((await client.kv.range({ key: utf8("/registry/health") })).count).toBe(0n);
    });
  });
}
