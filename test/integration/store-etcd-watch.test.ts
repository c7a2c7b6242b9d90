// Watches on a real etcd member: how many it holds for agents, and what answers about progress cost.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { GuardedStore } from "@gpve/store/guard/guarded-store.ts";
import { fromUtf8, prefixEnd, utf8 } from "@gpve/store/keys.ts";
import type { Op, Store } from "@gpve/store/port.ts";
import { openWatch } from "@gpve/store/testing/conformance.ts";
import { type EtcdCluster, etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";

if (etcdMissing !== undefined) console.error(`SKIPPED store-etcd-watch: ${etcdMissing}`);

const all = { key: utf8("/gpve/"), end: prefixEnd(utf8("/gpve/")) };
const put = (key: string): Op => ({ type: "put", key: utf8(`/gpve/${key}`), value: utf8("x") });

describe.skipIf(etcdMissing !== undefined)("watches on a real member", () => {
  let cluster: EtcdCluster;
  let store: Store;
  beforeAll(async () => {
    cluster = await startEtcd({ members: 1 });
    store = cluster.open();
  });
  afterAll(async () => {
    await store.close();
    await cluster.stop();
  });
  const write = async (...keys: string[]) =>
    (await store.txn({ compare: [], success: keys.map(put) })).revision;
  const watchers = async (): Promise<number> => {
    const text = await (await fetch(new URL("/metrics", cluster.endpoints[0]))).text();
    return Number(/^etcd_debugging_mvcc_watcher_total (\d+)/mu.exec(text)?.[1]);
  };

  it("holds one for all agents of a server, each of which hears its own part", async () => {
    const startRevision = (await write("shared/0")) + 1;
    const agents = ["n1", "n2", "n3", "n4", "n5"].map((node) => {
      const own = `/gpve/own/${node}/`;
      const rules = { read: ["/gpve/"], only: ["/gpve/shared/", own], hidden: [], write: [own] };
      const guarded = new GuardedStore(store, { peer: node, leases: `/gpve/.leases/${node}/`, ...rules });
      return { node, watch: openWatch(guarded, { ...all, startRevision }) };
    });
    const told = agents.map(({ watch }) => watch.events(3));
    await write("shared/1", "own/n1/a", "own/n2/a", "own/n3/a", "own/n4/a", "own/n5/a");
    await write("elsewhere");
    await write("shared/2");
    for (const [index, { node }] of agents.entries()) {
      const names = (await told[index])?.map(({ kv }) => fromUtf8(kv.key));
      expect(names).toEqual(["/gpve/shared/1", `/gpve/own/${node}/a`, "/gpve/shared/2"]);
    }
    await expect.poll(watchers, { timeout: 150_000 }).toBe(1);
    for (const { watch } of agents) await watch.stop();
    await expect.poll(watchers, { timeout: 150_000 }).toBe(0);
  });

  // etcd before 3.4.25 answers with revisions whose events it has not sent yet.
  it("loses no event to a question about progress", async () => {
    const stop = new AbortController();
    const startRevision = (await store.revision()) + 1;
    const watching = store.watch({ ...all, startRevision, signal: stop.signal });
    let [events, reached, late] = [0, 0, 0];
    const read = (async () => {
      for await (const batch of watching) {
        if (batch.type === "progress") reached = Math.max(reached, batch.revision);
        if (batch.type !== "events") continue;
        events += batch.events.length;
        late += batch.events.filter(({ kv }) => kv.modRevision <= reached).length;
        if (batch.events.some(({ kv }) => fromUtf8(kv.key) === "/gpve/last")) return;
      }
    })();
    const asker = setInterval(() => watching.requestProgress(), 1);
    for (let round = 0; round < 200; round++) {
      await Promise.all(Array.from({ length: 10 }, (_, i) => write(`many/${round}/${i}`)));
    }
    clearInterval(asker);
    await write("last");
    await read;
    stop.abort();
    expect(late).toBe(0);
    expect(events).toBe(2_001);
    expect(reached).toBeGreaterThan(startRevision);
  });
});
