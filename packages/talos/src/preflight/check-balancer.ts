// The load balancer's machine, before it is made: its image, its VMID and its address.
import { balancerOf } from "../cluster/balancer.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Driver } from "../driver/driver.ts";
import { balancerVolume } from "../plan/balancer-config.ts";
import { checkGuests, isOurs, type KnownGuest } from "./check-guests.ts";
import { error, type Finding } from "./finding-report.ts";

export interface CheckedBalancer {
  readonly findings: readonly Finding[];
  /** Those that are still to be made. */
  readonly absent: readonly Pick<Machine, "name" | "addresses" | "mac" | "provider">[];
}

export async function checkBalancer(
  cluster: Cluster,
  machines: readonly Machine[],
  driver: Driver,
  guests: readonly KnownGuest[],
): Promise<CheckedBalancer> {
  const balancer = balancerOf(cluster, machines);
  if (balancer === undefined || balancer.provider !== driver.name) return { findings: [], absent: [] };
  const tag = `talos-${cluster.metadata.name}`;
  if (guests.some((known) => isOurs(known, balancer, tag))) return { findings: [], absent: [] };
  const storage = cluster.providers.find(({ name }) => name === driver.name)?.storage.image ?? "";
  const volume = balancerVolume(storage);
  const volumes = await driver.volumes(balancer.host, storage, "import").catch((): readonly string[] => []);
  return {
    findings: [
      ...checkGuests([balancer], guests, tag),
      ...(volumes.includes(volume)
        ? []
        : [error("balancer-image-missing", balancer.name, `${volume} is not on ${balancer.host}`)]),
    ],
    absent: [balancer],
  };
}
