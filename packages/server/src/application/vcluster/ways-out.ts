import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";

/** It is the node that goes to the addresses that a request names, past the wall of the cluster: as for a download. */
export function requireWaysOut(
  node: string,
  { backingStore, oidc }: Pick<VirtualClusterSpec, "backingStore" | "oidc">,
  { access }: RequestContext,
): void {
  if (backingStore !== "external" && oidc === undefined) return;
  if (access.has("/", ["Sys.Audit", "Sys.Modify"])) return;
  access.require(`/nodes/${node}`, ["Sys.AccessNetwork"]);
}
