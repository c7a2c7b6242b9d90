// What is written down of versions, so that they stay where the file says nothing of them.
import type { Cluster } from "../cluster/cluster.ts";
import type { ClusterLock } from "./lock-file.ts";

type Pins = Pick<ClusterLock, "contract" | "kubernetes">;

/** Another one that the file names is the cluster's once everything is as the file says. */
export function pinnedVersions(
  known: Pins,
  { contract, kubernetes }: Cluster["versions"],
  decided: "kept" | "taken",
): Pins {
  if (decided === "taken") return { contract, kubernetes };
  return { contract: known.contract ?? contract, kubernetes: known.kubernetes ?? kubernetes };
}
