import type { ComponentStore } from "@gpve/domain/component/ports.ts";
import type { ClusterFront } from "@gpve/domain/vcluster/cluster-front.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { SupervisedGuests } from "../guest-process/supervised-guests.ts";
import type { ClusterNetworks } from "./network/cluster-network.ts";
import type { ClusterStores } from "./cluster-stores.ts";
import type { SelfProgram } from "./store-process.ts";

export interface LinuxClusterHostDeps {
  readonly folder: string;
  readonly processes: Pick<
    SupervisedGuests,
    "start" | "get" | "forget" | "onExit" | "lastWords" | "confinement"
  >;
  readonly networks: ClusterNetworks;
  readonly stores: ClusterStores;
  readonly components: Pick<ComponentStore, "program">;
  readonly self: SelfProgram;
  readonly clock: Clock;
  /** Names and addresses of this node, by which clients may reach it. */
  readonly nodeNames: readonly string[];
  /** Where tenants come in. */
  readonly front: Pick<ClusterFront, "url">;
  /** Of the first cluster; those of the others follow. */
  readonly firstPort: number;
}
