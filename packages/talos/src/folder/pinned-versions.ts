// What is written down of versions, so that they stay where the file says nothing of them.
import type { Cluster } from "../cluster/cluster.ts";
import type { ClusterLock } from "./lock-file.ts";

type Pins = Pick<ClusterLock, "contract" | "kubernetes">;

/** What has been decided for good. Before a machine is configured nothing has, and of a lock in which Kubernetes does not stand
 * nobody has ever read the contract: upgrades of Talos moved it. */
export function decidedVersions({
  appliedAt,
  contract,
  kubernetes,
}: Pick<ClusterLock, "appliedAt" | "contract" | "kubernetes">): Pins {
  return appliedAt === null || kubernetes === undefined ? { contract: null } : { contract, kubernetes };
}

/** Another one that the file names is the cluster's once everything is as the file says. */
export function pinnedVersions(
  known: Parameters<typeof decidedVersions>[0],
  { contract, kubernetes }: Cluster["versions"],
  decided: "kept" | "taken",
): Pins {
  if (decided === "taken") return { contract, kubernetes };
  const pins = decidedVersions(known);
  return { contract: pins.contract ?? contract, kubernetes: pins.kubernetes ?? kubernetes };
}
