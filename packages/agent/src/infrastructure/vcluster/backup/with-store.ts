import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { openSocketStore } from "@gpve/store/etcd/socket-store.ts";
import type { Store } from "@gpve/store/port.ts";
import type { StoreProcess } from "../store-process.ts";

/** Also of a cluster that does not run: its store is opened for that, and closed again. */
export function withStore(stores: Pick<StoreProcess, "isServed" | "serve" | "leave" | "socket">) {
  return async <T>(
    { name }: KeptCluster,
    signal: AbortSignal,
    use: (store: Store) => Promise<T>,
  ): Promise<T> => {
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
