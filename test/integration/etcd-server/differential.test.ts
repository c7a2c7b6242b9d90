// The same raw requests to a real etcd and to ours: answers, headers, errors with their words, and events are equal.
import { ConnectError } from "@connectrpc/connect";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type EtcdListener, listenEtcd } from "@gpve/store/etcd-server/listen.ts";
import type { WatchResponse } from "@gpve/store/gen/proto/etcdserverpb/rpc_pb.ts";
import { utf8 } from "@gpve/store/keys.ts";
import type { Store } from "@gpve/store/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { type EtcdClient, connectEtcd } from "@gpve/store/testing/etcd-client.ts";
import { type EtcdCluster, etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { WatchLine } from "@gpve/store/testing/etcd-watch-line.ts";
import { EtcdStory } from "./etcd-story.ts";

if (etcdMissing !== undefined) console.error(`SKIPPED etcd-server/differential: ${etcdMissing}`);

const STEPS = 2_000;

describe.skipIf(etcdMissing !== undefined)("etcd's API served by us and by etcd", () => {
  let cluster: EtcdCluster;
  let store: Store;
  let listener: EtcdListener;
  let ours: EtcdClient;
  let theirs: EtcdClient;
  beforeAll(async () => {
    cluster = await startEtcd({ members: 1 });
    store = openSqliteStore({ path: ":memory:" });
    listener = await listenEtcd({ store, name: "ours", listen: { host: "127.0.0.1", port: 0 } });
    ours = connectEtcd(listener.url);
    theirs = connectEtcd(cluster.endpoints[0] ?? "");
  });
  afterAll(async () => {
    ours.close();
    theirs.close();
    await listener.close();
    await store.close();
    await cluster.stop();
  });

  const both = async (run: (client: EtcdClient) => Promise<object>): Promise<[unknown, unknown]> => {
    const [a, b] = await Promise.all([attempt(() => run(ours)), attempt(() => run(theirs))]);
    return [a, b];
  };

  it("cannot be told apart by any answer or error", async () => {
    const seed = Number(process.env["GPVE_SEED"] ?? Date.now() % 1_000_000);
    console.log(`etcd-server differential: GPVE_SEED=${seed}`);
    const story = new EtcdStory(seed);
    const seen = new Map<string, number>();
    let refused = 0;
    for (let step = 0; step < STEPS; step++) {
      const act = story.step(await store.revision());
      const [mine, real] = await both(act.run);
      expect(mine, `step ${step}: ${act.name} ${printable(act.request)}`).toEqual(real);
      seen.set(act.name, (seen.get(act.name) ?? 0) + 1);
      if (typeof real === "string") refused++;
    }
    console.log(
      `etcd-server differential: ${STEPS} requests equal, ${refused} of them refused:`,
      [...seen].map(([name, count]) => `${name} ${count}`).join(", "),
    );
  });

  it("refuses what is too large or too much in the same words", async () => {
    const put = (bytes: number) => (client: EtcdClient) =>
      client.kv.put({ key: utf8("big"), value: new Uint8Array(bytes) });
    const ops = (count: number, make: (index: number) => object) =>
      Array.from({ length: count }, (_, i) => make(i));
    const one = (i: number) => ({ request: { case: "requestPut", value: { key: utf8(`n${i}`) } } }) as const;
    const nested = (outer: number, inner: number) => (client: EtcdClient) =>
      client.kv.txn({
        success: [
          ...ops(outer - 1, (i) => one(i)),
          { request: { case: "requestTxn", value: { success: ops(inner, (i) => one(1_000 + i)) } } },
        ],
      });
    for (const run of [
      put(1_000_000),
      put(1_600_000),
      (client: EtcdClient) => client.kv.txn({ success: ops(128, one) }),
      (client: EtcdClient) => client.kv.txn({ success: ops(129, one) }),
      (client: EtcdClient) => client.kv.txn({ success: [{}] }),
      nested(100, 28),
      nested(100, 29),
      (client: EtcdClient) => client.kv.put({ key: utf8("x"), lease: 4_242n, ignoreValue: true }),
    ]) {
      const [mine, real] = await both(run);
      expect(mine).toEqual(real);
    }
    const [mine, real] = await both(put(3_000_000));
    expect(String(mine).split(":")[0]).toBe("refused 8");
    expect(String(real).split(":")[0]).toBe("refused 8");
  });

  it("tells the same on one stream with many watches", async () => {
    // Watches of one stream may speak in any order: what each says is compared.
    const tell = async (client: EtcdClient): Promise<Map<bigint, unknown[]>> => {
      const line = new WatchLine(client);
      const told = new Map<bigint, unknown[]>();
      const note = (answers: readonly WatchResponse[]): void => {
        for (const answer of answers) {
          told.set(answer.watchId, [...(told.get(answer.watchId) ?? []), plain(answer)]);
        }
      };
      const first = (await client.kv.put({ key: utf8("w/a"), value: utf8("1") })).header?.revision ?? 0n;
      await client.kv.put({ key: utf8("w/a"), value: utf8("2") });
      await client.kv.put({ key: utf8("w/b"), value: utf8("1") });
      line.create({ key: utf8("w/"), rangeEnd: utf8("w0"), startRevision: first, prevKv: true });
      note(await line.until(({ created }) => created));
      note(await line.until(({ events }) => events.some(({ kv }) => kv?.key.at(-1) === 0x62)));
      line.create({ key: utf8("w/"), rangeEnd: utf8("w0"), filters: [0] });
      note([await line.next()]);
      line.create({ key: utf8("w/a"), watchId: 77n, filters: [1] });
      note([await line.next()]);
      line.create({ key: utf8("w/a"), watchId: 77n });
      note([await line.next()]);
      line.create({ key: utf8("z"), rangeEnd: utf8("a") });
      note([await line.next()]);
      const next = async (id: bigint): Promise<void> => {
        note(await line.until(({ watchId }) => watchId === id));
      };
      await client.kv.deleteRange({ key: utf8("w/b") });
      await next(1n);
      await client.kv.put({ key: utf8("w/a"), value: utf8("3") });
      await next(77n);
      line.cancel(77n);
      note(await line.until(({ canceled }) => canceled));
      line.cancel(4_711n);
      line.progress();
      note(await line.until(({ watchId }) => watchId === -1n));
      const { header } = await client.kv.put({ key: utf8("w/c") });
      const isC = ({ events }: WatchResponse): boolean => events.some(({ kv }) => kv?.key.at(-1) === 0x63);
      note(await line.until((answer) => answer.watchId === 0n && isC(answer)));
      await client.kv.compact({ revision: header?.revision ?? 0n, physical: true });
      line.create({ key: utf8("w/c"), startRevision: first });
      note(await line.until(({ compactRevision }) => compactRevision > 0n));
      line.close();
      return told;
    };
    // The stores stand at different revisions when an earlier request was larger than one of them takes.
    expect(await store.revision()).toBe(Number((await theirs.kv.range({ key: utf8("x") })).header?.revision));
    const mine = await tell(ours);
    expect(mine).toEqual(await tell(theirs));
    expect(new Set(mine.keys())).toEqual(new Set([-1n, 0n, 1n, 2n, 77n]));
  });
});

async function attempt(run: () => Promise<object>): Promise<unknown> {
  try {
    return plain(await run());
  } catch (err) {
    if (!(err instanceof ConnectError)) throw err;
    return `refused ${err.code}: ${err.rawMessage}`;
  }
}

/** Without who answered: that differs. */
function plain(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(plain);
  if (value instanceof Uint8Array) return Buffer.from(value).toString("hex");
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([name]) => !["clusterId", "memberId", "raftTerm"].includes(name))
      .map(([name, part]) => [name, plain(part)]),
  );
}

function printable(value: unknown): string {
  return JSON.stringify(plain(value), (_key, part: unknown) =>
    typeof part === "bigint" ? String(part) : part,
  );
}
