import { AppError } from "@gpve/contracts/errors.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";

/** The number of its network on this node: a cluster gets one before it gets workers. */
export function networkOf({ name, network }: Pick<KeptCluster, "name" | "network">): number {
  if (network !== undefined) return network;
  throw new AppError("internal.error", `virtual cluster ${name} has no network`);
}
