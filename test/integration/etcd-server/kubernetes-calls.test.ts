// The suite of a Kubernetes API server's calls on a real etcd; beside its server it runs on SQLite.
import { kubernetesCalls } from "@gpve/store/testing/kubernetes-calls.ts";
import { connectEtcd } from "@gpve/store/testing/etcd-client.ts";
import { etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import { describe } from "vitest";

if (etcdMissing !== undefined) console.error(`SKIPPED etcd-server/kubernetes-calls: ${etcdMissing}`);

describe.skipIf(etcdMissing !== undefined)("on etcd", () => {
  kubernetesCalls("one etcd member", async () => {
    const cluster = await startEtcd({ members: 1 });
    const client = connectEtcd(cluster.endpoints[0] ?? "");
    return {
      client,
      close: async () => {
        client.close();
        await cluster.stop();
      },
    };
  });
});
