// What a request may say of a cluster's network beside its addresses, and of where its API is reached.
import { invalidSpec } from "./invalid-spec.ts";

/**
 * Where new kubeconfigs lead: auto = as it is reached wherever it goes; node = to its node's own port; server = to the servers, by
 * its name, also where there is one node.
 */
export const EXPOSURES = ["auto", "node", "server"] as const;
export type Exposure = (typeof EXPOSURES)[number];

/** Pods' own network: a bridge on each node, and VXLAN between them. */
export const CNI = "bridge";

export function requireOwnCni(value: unknown): void {
  if (value === undefined || (typeof value === "string" && value.toLowerCase() === CNI)) return;
  throw invalidSpec(
    "networking.cni",
    `must be ${CNI}: a network of gpve's own, VXLAN between nodes included; one that comes as pods of the cluster would need rights on the node that pods do not have`,
  );
}
