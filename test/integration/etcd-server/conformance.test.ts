// Our client, our server, and a real etcd behind it: the Store's suite must hold through all of them.
import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { openEtcdStore } from "@gpve/store/etcd/etcd-store.ts";
import { listenEtcd } from "@gpve/store/etcd-server/listen.ts";
import { storeConformance } from "@gpve/store/testing/conformance.ts";
import { etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";

if (etcdMissing !== undefined) console.error(`SKIPPED etcd-server/conformance: ${etcdMissing}`);

describe.skipIf(etcdMissing !== undefined)("our server", () => {
  storeConformance("in front of one etcd member", async () => {
    const cluster = await startEtcd({ members: 1 });
    const behind = cluster.open();
    const listener = await listenEtcd({
      store: behind,
      name: "front",
      listen: { host: "127.0.0.1", port: 0 },
    });
    const store = openEtcdStore({ endpoints: [listener.url] });
    return {
      store,
      close: async () => {
        await store.close();
        await listener.close();
        await behind.close();
        await cluster.stop();
      },
      pass: (seconds) => sleep(seconds * 1_000),
    };
  });
});
