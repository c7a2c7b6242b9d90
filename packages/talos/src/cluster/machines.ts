// The machines of a cluster, each with everything that is decided about it before anything is made: the same file
// gives the same machines wherever it is read.
import { machineMac, machineUuid } from "../machine/identity.ts";
import type { Machine, MachineSize, Pinned } from "./machine.ts";
import { takeAddresses } from "./machine-addresses.ts";
import { placeMachines } from "./machine-places.ts";
import { takeIds } from "./machine-ids.ts";
import type { Cluster } from "./cluster.ts";

type Member = Pick<Machine, "name" | "role" | "pool" | "number" | "size">;

/** Found by its label; the client of Ceph is part of Talos' kernel, its tools and those of NFS and iSCSI are not. */
const STORAGE_POOL = {
  labels: { "gpve.io/role": "storage" },
  extensions: ["siderolabs/iscsi-tools", "siderolabs/nfs-utils", "siderolabs/util-linux-tools"],
};

/** Refuses (config.invalid) when there is no address or VMID left to give. */
export function machinesOf(
  cluster: Cluster,
  pinned: Readonly<Record<string, Pinned>> = {},
): readonly Machine[] {
  const members = membersOf(cluster);
  const places = placeMachines(cluster, members, pinned);
  const ids = takeIds(cluster, members, pinned);
  const addresses = takeAddresses(cluster, members, pinned);
  return members.map((member) => {
    const own = cluster.nodes[member.name];
    const group = cluster.pools.find(({ name }) => name === member.pool);
    const ofRole = group?.role === "storage" ? STORAGE_POOL : undefined;
    const place = places.get(member.name);
    return {
      ...member,
      hostname: own?.hostname ?? member.name,
      provider: place?.provider ?? "",
      host: place?.host ?? "",
      vmid: ids.get(member.name) ?? 0,
      addresses: addresses.get(member.name) ?? [],
      mac: (own?.mac ?? machineMac(cluster.metadata.name, member.name, 0)).toUpperCase(),
      uuid: machineUuid(cluster.metadata.name, member.name),
      labels: { ...ofRole?.labels, ...group?.labels },
      taints: group?.taints ?? {},
      tags: [...new Set([`talos-${cluster.metadata.name}`, ...cluster.tags, ...(group?.tags ?? [])])],
      arch: group?.arch ?? cluster.image.arch,
      extensions: [...new Set([...(ofRole?.extensions ?? []), ...(group?.extensions ?? [])])],
      patchFiles: [...(group ?? cluster.controlPlane).patches, ...(own?.patches ?? [])].map(
        ({ file }) => file,
      ),
    };
  });
}

function membersOf(cluster: Cluster): readonly Member[] {
  const group = (
    role: Machine["role"],
    pool: string,
    { count, machine }: { count: number; machine: MachineSize },
  ): Member[] =>
    Array.from({ length: count }, (_, index) => {
      const name = `${cluster.metadata.name}-${pool}-${index + 1}`;
      const own = cluster.nodes[name]?.machine as Partial<MachineSize> | undefined;
      return { name, role, pool, number: index + 1, size: { ...machine, ...own } };
    });
  return [
    ...group("controlplane", "cp", cluster.controlPlane),
    ...cluster.pools.flatMap((each) => group("worker", each.name, each)),
  ];
}
