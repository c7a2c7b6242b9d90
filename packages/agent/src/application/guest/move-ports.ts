// What servers say of moves between nodes: who may, and whose the guest is afterwards.
import { moveCollection, moveId, type GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { ReplicaPeers } from "@gpve/domain/replication/replica.ts";
import type { ClusterPeers } from "@gpve/domain/vcluster/move/cluster-moves.ts";
import type { VolumePeers } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import type { StandbyPeers } from "@gpve/domain/vcluster/standby/ports.ts";
import type { MoveKeys, MovePeers } from "@gpve/domain/guest/move-channel.ts";
import type { MoveName, MoveServers } from "@gpve/domain/guest/move-servers.ts";
import { conflict, missing } from "@gpve/domain/request/failures.ts";
import type { Records } from "@gpve/store/records/port.ts";

/** What nobody but a server can give. */
export function findMove(records: Records, { vmid, moveId: id }: MoveName): GuestMove | undefined {
  return records.collection(moveCollection).get(moveId(vmid, id))?.value;
}

export interface MoveOthers {
  readonly servers: MoveServers;
  readonly peers: MovePeers & ReplicaPeers & ClusterPeers & StandbyPeers & VolumePeers;
  /** Absent: no QEMU encrypts what it sends, agents do. */
  readonly keys?: MoveKeys;
  /** Throws where there is nobody to move a guest to, before anything is begun. */
  readonly requireOthers?: (target: string) => void;
}

const NO_FOLLOWERS = "this node is in no cluster: nobody can follow its stores";

/** A node by itself has nowhere to move a guest to: what is asked for is refused, and what was begun is still here. */
export function noOtherNodes(node: string): MoveOthers {
  return {
    servers: {
      handOver: ({ vmid }) => Promise.reject(alone(vmid)),
      withdraw: () => Promise.resolve(node),
    },
    peers: {
      connect: ({ vmid }) => Promise.reject(alone(vmid)),
      replicaLine: ({ vmid }) => Promise.reject(alone(vmid)),
      clusterLine: () => Promise.reject(conflict("this node is in no cluster: nothing can be moved from it")),
      clusterVolumes: () =>
        Promise.reject(conflict("this node is in no cluster: nobody has volumes of its clusters")),
      standbyLine: () => Promise.reject(conflict(NO_FOLLOWERS)),
      standbyPlace: () => Promise.reject(conflict(NO_FOLLOWERS)),
    },
    requireOthers: (target) => {
      throw missing(`no such cluster node '${target}'`);
    },
  };
}

function alone(vmid: number): Error {
  return conflict(
    `VM ${vmid} cannot be moved: this node runs server and agent in one process and is in no cluster; see the how-to on running the parts`,
  );
}
