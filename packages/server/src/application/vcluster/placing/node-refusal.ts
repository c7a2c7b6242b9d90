// Why a node cannot have a virtual cluster, or a part of one.
import { nodeResources } from "@gpve/domain/node/node-resources.ts";
import type { NodeUsage, NodeView } from "@gpve/domain/node/runtime.ts";
import { roomText } from "@gpve/domain/scheduler/words.ts";
import { askedControlPlane } from "@gpve/domain/vcluster/control-plane-size.ts";
import { whyTooFewDevices } from "@gpve/domain/vcluster/devices/worker-devices.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { totalSize, totalWorkers } from "@gpve/domain/vcluster/vnode/worker-pools.ts";

export type Sized = Pick<
  VirtualClusterSpec,
  "workers" | "workerSize" | "devices" | "pools" | "replicas" | "spread"
>;

export type ControlPlane = Pick<VirtualClusterSpec, "tier" | "controlPlaneSize">;

/** What a control plane takes when it has just begun. */
const CONTROL_PLANE_BYTES = 300 * 2 ** 20;

/** Of those that its workers select nodes by; undefined: it has all of them. */
export function lackingLabel(
  labels: Readonly<Record<string, string>>,
  { nodeSelector = {} }: Pick<VirtualClusterSpec, "nodeSelector">,
): string | undefined {
  return Object.entries(nodeSelector)
    .find(([key, value]) => labels[key] !== value)
    ?.join("=");
}

/** undefined: there is room, as far as the node has told what it has, whatever else it has. */
export function whyNoRoom(view: NodeView, spec: Sized): string | undefined {
  return whyNoStart(view) ?? whyNoDevices(view, spec) ?? whyTooLarge(view, spec);
}

export function whyNoStart(view: NodeView): string | undefined {
  const available = (view.report?.usage as NodeUsage | undefined)?.memory.available;
  if (available !== undefined && available < CONTROL_PLANE_BYTES)
    return `${roomText(available)} of its memory are free, and a control plane takes ${roomText(CONTROL_PLANE_BYTES)}`;
  return undefined;
}

export function whyNoDevices(view: NodeView, spec: Sized): string | undefined {
  const devices = (view.facts?.devices ?? []).map(({ kind, count }) => [kind, count] as const);
  return whyTooFewDevices(spec, Object.fromEntries(devices));
}

function whyTooLarge(view: NodeView, spec: Sized): string | undefined {
  const allocatable = nodeResources(view, [])?.allocatable.memory;
  const wanted = bytesOnOne(spec);
  return allocatable === undefined || wanted <= allocatable
    ? undefined
    : `the workers may use ${roomText(wanted)}, and all guests of the node together ${roomText(allocatable)}: ask for fewer, or for smaller ones`;
}

/** Of one that is to be made; undefined: the node has what is asked for its control plane, or has not told what it has. Of one that
 * is there nothing is set aside: more than its node has is no bound, and no reason to leave it where it cannot be. */
export function whyNoControlPlane(view: NodeView, spec: ControlPlane): string | undefined {
  const has = nodeResources(view, [])?.capacity;
  if (has === undefined) return undefined;
  const { cpus = 0, memoryBytes = 0 } = askedControlPlane(spec);
  if (cpus > has.cpu)
    return `its control plane asks for ${cpus} CPUs (spec.controlPlane.resources), and the node has ${has.cpu}`;
  if (memoryBytes > has.memory)
    return `its control plane asks for ${roomText(memoryBytes)} (spec.controlPlane.resources), and the node has ${roomText(has.memory)}`;
  return undefined;
}

/** Where they are dealt out to several nodes, each has one at least. */
function bytesOnOne(spec: Sized): number {
  const { memoryBytes } = totalSize(spec);
  const isDealt = spec.spread === true || spec.replicas > 1;
  return isDealt && totalWorkers(spec) > 0 ? spec.workerSize.memoryBytes : memoryBytes;
}
