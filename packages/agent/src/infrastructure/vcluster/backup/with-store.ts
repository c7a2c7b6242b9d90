import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { openSocketStore } from "@gpve/store/etcd/socket-store.ts";
import type { Store } from "@gpve/store/port.ts";
import type { StoreProcess } from "../store-process.ts";

/** An etcd of a cluster's own. */
export interface OwnEtcds {
  openEtcd(cluster: KeptCluster): Store;
  isServed(cluster: KeptCluster): boolean;
  /** With keys and network where these are not there. */
  serve(cluster: KeptCluster, signal: AbortSignal): Promise<void>;
  stop(cluster: KeptCluster): Promise<void>;
}

/** What of a cluster's programs that takes. */
export interface EtcdPrograms {
  openEtcd(cluster: KeptCluster): Store;
  provision(cluster: KeptCluster): Promise<unknown>;
  serveStore(cluster: KeptCluster, signal: AbortSignal): Promise<void>;
  stop(cluster: KeptCluster): Promise<void>;
}

export function ownEtcds(
  host: EtcdPrograms,
  processes: { get(id: string): { readonly hasExited: boolean } | undefined },
): OwnEtcds {
  return {
    openEtcd: (cluster) => host.openEtcd(cluster),
    isServed: ({ name }) => processes.get(`${name}.etcd`)?.hasExited === false,
    serve: async (cluster, signal) => {
      await host.provision(cluster);
      await host.serveStore(cluster, signal);
    },
    stop: (cluster) => host.stop(cluster),
  };
}

/** Also of a cluster that does not run: its store is opened for that, and closed again. */
export function withStore(
  stores: Pick<StoreProcess, "isServed" | "serve" | "leave" | "socket">,
  etcds: OwnEtcds,
) {
  return async <T>(
    cluster: KeptCluster,
    signal: AbortSignal,
    use: (store: Store) => Promise<T>,
  ): Promise<T> => {
    const { name, spec } = cluster;
    const isEtcd = spec.backingStore === "etcd";
    const wasServed = isEtcd ? etcds.isServed(cluster) : stores.isServed(name);
    try {
      if (!isEtcd) await stores.serve(name, signal);
      else if (!wasServed) await etcds.serve(cluster, signal);
      const store = isEtcd ? etcds.openEtcd(cluster) : openSocketStore(stores.socket(name));
      try {
        return await use(store);
      } finally {
        await store.close();
      }
    } finally {
      if (!wasServed) await (isEtcd ? etcds.stop(cluster) : stores.leave(name));
    }
  };
}
