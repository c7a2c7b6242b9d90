import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { connectEtcd } from "../testing/etcd-client.ts";
import { kubernetesCalls } from "../testing/kubernetes-calls.ts";
import { listenEtcd } from "./listen.ts";

kubernetesCalls("SQLite behind our server", async () => {
  const store = openSqliteStore({ path: ":memory:" });
  const listener = await listenEtcd({ store, name: "k", listen: { host: "127.0.0.1", port: 0 } });
  const client = connectEtcd(listener.url);
  return {
    client,
    close: async () => {
      client.close();
      await listener.close();
      await store.close();
    },
  };
});
