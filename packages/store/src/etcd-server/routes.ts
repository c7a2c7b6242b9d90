// etcd's gRPC API in front of a Store: what etcdctl, Kubernetes and our own agents speak.
import type { ConnectRouter } from "@connectrpc/connect";
import type { Clock } from "@gpve/kit/clock.ts";
import { Auth, Cluster, KV, Lease, Maintenance, Watch } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { MAX_REQUEST_BYTES } from "../txn-rules.ts";
import { toEtcd } from "./etcd-texts.ts";
import { type ServiceDeps, kvService } from "./kv.ts";
import { leaseService } from "./lease.ts";
import { authService, clusterService, maintenanceService } from "./maintenance.ts";
import { WatchStream } from "./watch-stream.ts";

export interface EtcdServerDeps extends ServiceDeps {
  readonly clock: Clock;
  /** How often a quiet watch that wants it hears how far the store is; default 5 s. */
  readonly progressNotifyMs?: number;
  /** How many watches one stream may have open; default any number, as with etcd. */
  readonly maxWatches?: number;
}

/** A message may be this much larger than what it may carry; etcd's own number. */
export const readMaxBytes = MAX_REQUEST_BYTES + 512 * 1024;

/** What clients of a Store need: keys, watches, leases. */
export function storeRoutes(router: ConnectRouter, deps: EtcdServerDeps): void {
  const { storeOf, member, clock, progressNotifyMs = 5_000, maxWatches = Infinity } = deps;
  router.service(KV, kvService(deps), { readMaxBytes });
  router.service(Lease, leaseService(deps), { readMaxBytes });
  router.service(
    Watch,
    {
      async *watch(requests, context) {
        try {
          const store = storeOf(context);
          const stream = new WatchStream({ store, member, clock, progressNotifyMs, maxWatches });
          yield* stream.answer(requests, context.signal);
        } catch (err) {
          throw toEtcd(err);
        }
      },
    },
    { readMaxBytes },
  );
}

/** All of etcd's API, for whoever has the store to himself. */
export function etcdRoutes(router: ConnectRouter, deps: EtcdServerDeps): void {
  storeRoutes(router, deps);
  router.service(Maintenance, maintenanceService(deps), { readMaxBytes });
  router.service(Cluster, clusterService(deps), { readMaxBytes });
  router.service(Auth, authService(deps), { readMaxBytes });
}
