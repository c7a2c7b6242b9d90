import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { openSocketStore } from "@gpve/store/etcd/socket-store.ts";
import type { Store } from "@gpve/store/port.ts";
import type { StoreProcess } from "../store-process.ts";

/** Also of a cluster that does not run: its store is opened for that, and closed again. One that is an etcd of its own has
 * to run. */
export function withStore(
  stores: Pick<StoreProcess, "isServed" | "serve" | "leave" | "socket">,
  openEtcd: (cluster: KeptCluster) => Store,
) {
  return async <T>(
    cluster: KeptCluster,
    signal: AbortSignal,
    use: (store: Store) => Promise<T>,
  ): Promise<T> => {
    const { name, spec } = cluster;
    if (spec.backingStore === "etcd") {
      const etcd = openEtcd(cluster);
      try {
        return await use(etcd);
      } finally {
        await etcd.close();
      }
    }
    const wasServed = stores.isServed(name);
    await stores.serve(name, signal);
    const store = openSocketStore(stores.socket(name));
    try {
      return await use(store);
    } finally {
      await store.close();
      if (!wasServed) await stores.leave(name);
    }
  };
}
