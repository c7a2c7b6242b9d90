import type { RequestContext } from "@gpve/domain/request/context.ts";
import { hasDevices } from "@gpve/domain/vcluster/devices/worker-devices.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";

/**
 * It is the node that goes to the addresses that a request names, past the wall of the cluster: as for a download. Pods that
 * go out do so in the node's name, to whatever it reaches.
 */
export function requireWaysOut(
  node: string,
  { backingStore, oidc, egress }: Pick<VirtualClusterSpec, "backingStore" | "oidc" | "egress">,
  { access }: RequestContext,
): void {
  if (backingStore !== "external" && oidc === undefined && egress === undefined) return;
  if (access.has("/", ["Sys.Audit", "Sys.Modify"])) return;
  access.require(`/nodes/${node}`, ["Sys.AccessNetwork"]);
}

/**
 * Root of a worker is root of its node on level L1, and a device is its driver's whole interface: whoever lets pods have that has to
 * be one who has nodes to give away.
 */
export function requireMayBeRoot(
  { privileged, ...workers }: Pick<VirtualClusterSpec, "privileged" | "devices" | "pools">,
  { access }: Pick<RequestContext, "access">,
): void {
  if (privileged === true || hasDevices(workers)) access.require("/", ["Sys.Modify", "Sys.Console"]);
}
