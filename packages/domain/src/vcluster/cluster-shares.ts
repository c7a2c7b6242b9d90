// What a virtual cluster takes of each node that it is on, as the scheduler counts: what its workers may use there.
import { given } from "@gpve/contracts/given.ts";
import { guestLabels, type PlacedGuest } from "../scheduler/model.ts";
import { workerNode } from "./overlay.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "./vcluster-record.ts";
import { totalSize } from "./vnode/worker-pools.ts";
import type { VnodeSize } from "./vnode/vnode.ts";

/** One for each of its nodes. */
export function clusterShares(record: VirtualClusterRecord): readonly PlacedGuest[] {
  const { name, tenant, standby, spread } = record;
  const tied = standby === undefined && spread === undefined ? "its store is on this node alone" : undefined;
  return nodesOf(record).map((node) => {
    const { cpus, memoryBytes } = shareOf(record, node);
    return {
      request: {
        id: `vc/${keyOf(record)}/${node}`,
        kind: "vc",
        demand: { cpu: cpus, memory: memoryBytes },
        needs: {},
        labels: guestLabels({ kind: "vc", name, tenant }),
        rules: {},
      },
      node,
      counts: true,
      ...given({ tied }),
    };
  });
}

function shareOf({ node: home, spec, spread }: VirtualClusterRecord, node: string): VnodeSize {
  if (spread === undefined) return node === home ? totalSize(spec) : { cpus: 0, memoryBytes: 0 };
  const slots = Array.from({ length: spec.workers }, (_none, slot) => slot);
  const workers = slots.filter((slot) => workerNode(spread, slot) === node).length;
  return totalSize({ workers, workerSize: spec.workerSize });
}
