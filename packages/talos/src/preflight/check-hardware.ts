// Machines that are there, and what the file says of them that only new ones get.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { lackingDevices, unchangeable } from "../plan/guest-changes.ts";
import { isOurs, type KnownGuest } from "./check-guests.ts";
import { type Finding, warning } from "./finding-report.ts";

export interface CheckedHardware {
  readonly findings: readonly Finding[];
  /** With no more disks and devices than are still to be made for them. */
  readonly growing: readonly Machine[];
}

export function checkHardware(
  cluster: Cluster,
  machines: readonly Machine[],
  guests: readonly KnownGuest[],
  clusterTag: string,
): CheckedHardware {
  const found = machines.flatMap((machine) => {
    const known = guests.find((each) => isOurs(each, machine, clusterTag));
    return known === undefined ? [] : [{ machine, config: known.config }];
  });
  return {
    findings: found.flatMap(({ machine, config }) => {
      const texts = unchangeable(cluster, machine, config);
      return texts.length === 0 ? [] : [warning("replace-needed", machine.name, texts.join("; "))];
    }),
    growing: found.map(({ machine, config }) => lackingDevices(machine, config)),
  };
}
