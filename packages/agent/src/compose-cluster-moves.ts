// Wires control planes of virtual clusters that move between nodes.
import type { ClusterKeeper, ClusterPeers } from "@gpve/domain/vcluster/move/cluster-moves.ts";
import type { VolumePeers } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import type { ClusterAuthorities } from "@gpve/domain/vcluster/rotate/authorities.ts";
import type { StandbyPeers } from "@gpve/domain/vcluster/standby/ports.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import { type ClusterMoveDeps, clusterMoveOperations } from "./application/vcluster/move/move-operations.ts";
import { plainRegister } from "./application/vcluster/plain-operation.ts";
import { clusterMoveRoutes } from "./application/vcluster/move/move-routes.ts";
import { FileClusterLuggage } from "./infrastructure/vcluster/move/file-cluster-luggage.ts";
import type { StoreProcess } from "./infrastructure/vcluster/store-process.ts";

export interface ClusterMoveParts extends Omit<ClusterMoveDeps, "luggage"> {
  /** DIR/vclusters */
  readonly folder: string;
  readonly stores: Pick<StoreProcess, "closed">;
  readonly engine: OperationEngine;
  readonly awake: (name: string) => Promise<void>;
  readonly authorities: Pick<ClusterAuthorities, "rotation">;
}

/** What a node needs of others for that. */
export interface ClusterMoveOthers {
  readonly peers: ClusterPeers & StandbyPeers & VolumePeers;
  readonly findMove: (moveId: string) => Promise<GuestMove | undefined>;
}

export function composeClusterMoves(parts: ClusterMoveParts): {
  readonly routes: ReturnType<typeof clusterMoveRoutes>;
  readonly arrivals: ClusterKeeper;
} {
  const { folder, engine, stores } = parts;
  const luggage = new FileClusterLuggage({ folder, closed: (name, signal) => stores.closed(name, signal) });
  const { arrive, letGo, join, workerLeave, others } = clusterMoveOperations({ ...parts, luggage });
  const register = plainRegister(engine, parts.host);
  register(arrive);
  register(letGo);
  register(join);
  register(workerLeave);
  for (const operation of others) register(operation);
  return { routes: clusterMoveRoutes(parts), arrivals: luggage };
}
