// Why a node cannot have a virtual cluster, or a part of one.
import type { NodeRecord } from "@gpve/domain/node/record.ts";
import { nodeResources } from "@gpve/domain/node/node-resources.ts";
import type { NodeUsage, NodeView } from "@gpve/domain/node/runtime.ts";
import { formatTaint, parseTaint } from "@gpve/domain/node/taint.ts";
import { roomText } from "@gpve/domain/scheduler/words.ts";
import { whyTooFewDevices } from "@gpve/domain/vcluster/devices/worker-devices.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { totalSize, totalWorkers } from "@gpve/domain/vcluster/vnode/worker-pools.ts";

export type Sized = Pick<
  VirtualClusterSpec,
  "workers" | "workerSize" | "devices" | "pools" | "replicas" | "spread"
>;

/** What a control plane takes when it has just begun. */
const CONTROL_PLANE_BYTES = 300 * 2 ** 20;

/** Of those that are closed to whatever does not name them; undefined: it is open. */
export function whyClosed(
  record: Pick<NodeRecord, "unschedulable" | "taints"> | undefined,
  inMaintenance: boolean,
): string | undefined {
  if (inMaintenance) return "it is in maintenance";
  if (record?.unschedulable === true) return "it is cordoned";
  const taint = (record?.taints ?? []).map(parseTaint).find(({ effect }) => effect === "NoSchedule");
  return taint === undefined ? undefined : `it has the taint ${formatTaint(taint)}`;
}

/** undefined: there is room, as far as the node has told what it has. */
export function whyNoRoom(view: NodeView, spec: Sized): string | undefined {
  const available = (view.report?.usage as NodeUsage | undefined)?.memory.available;
  if (available !== undefined && available < CONTROL_PLANE_BYTES)
    return `${roomText(available)} of its memory are free, and a control plane takes ${roomText(CONTROL_PLANE_BYTES)}`;
  const devices = (view.facts?.devices ?? []).map(({ kind, count }) => [kind, count] as const);
  const few = whyTooFewDevices(spec, Object.fromEntries(devices));
  if (few !== undefined) return few;
  const allocatable = nodeResources(view, [])?.allocatable.memory;
  const wanted = bytesOnOne(spec);
  return allocatable === undefined || wanted <= allocatable
    ? undefined
    : `the workers may use ${roomText(wanted)}, and all guests of the node together ${roomText(allocatable)}: ask for fewer, or for smaller ones`;
}

/** Where they are dealt out to several nodes, each has one at least. */
function bytesOnOne(spec: Sized): number {
  const { memoryBytes } = totalSize(spec);
  const isDealt = spec.spread === true || spec.replicas > 1;
  return isDealt && totalWorkers(spec) > 0 ? spec.workerSize.memoryBytes : memoryBytes;
}
