// What a virtual cluster asks of a node, as the scheduler is asked: for its control plane, and for each part of it where it is
// on several nodes. Its shares are counted in the same way when it is there.
import { guestLabels, type PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { totalSize } from "@gpve/domain/vcluster/vnode/worker-pools.ts";

export interface AskedCluster {
  readonly name: string;
  readonly tenant: string;
  readonly spec: VirtualClusterSpec;
}

/** Of how many nodes it is one, from 0 with the control plane. */
export interface PartPlace {
  readonly at: number;
  readonly of: number;
}

/** What it is called in decisions. */
export type PartName = "control-plane" | "standby" | `replica-${number}` | `workers-${number}`;

export function clusterId({ name, tenant }: Pick<AskedCluster, "name" | "tenant">): string {
  return `vc/${tenant}/${name}`;
}

export function partName({ replicas }: Pick<VirtualClusterSpec, "replicas">, at: number): PartName {
  if (replicas > 1) return `replica-${at + 1}`;
  return at === 0 ? "control-plane" : `workers-${at + 1}`;
}

/** With the workers that are dealt out to it; one of one has all of them. */
export function partRequest(cluster: AskedCluster, { at, of }: PartPlace): PlacementRequest {
  const { spec } = cluster;
  const { workers, workerSize } = spec;
  const dealt = Math.max(0, Math.ceil((workers - at) / of));
  const { cpus, memoryBytes } = of === 1 ? totalSize(spec) : totalSize({ workers: dealt, workerSize });
  return requestFor(cluster, partName(spec, at), { cpu: cpus, memory: memoryBytes });
}

export function requestFor(
  cluster: AskedCluster,
  part: PartName,
  demand: PlacementRequest["demand"],
): PlacementRequest {
  const { name, tenant, spec } = cluster;
  return {
    id: `${clusterId(cluster)}/${part}`,
    kind: "vc",
    demand,
    needs: {},
    labels: guestLabels({ kind: "vc", name, tenant }),
    rules: spec.rules ?? {},
  };
}
