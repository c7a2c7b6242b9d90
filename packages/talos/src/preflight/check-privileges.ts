// Whether the token may do what making machines needs, path by path.
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import type { Driver } from "../driver/driver.ts";
import { wantedAddons } from "../addon/addon-catalogue.ts";
import { podEndpoint } from "../addon/pod-endpoint.ts";
import { mappingPath } from "./check-devices.ts";
import { error, type Finding, warning } from "./finding-report.ts";

const OF_MACHINES = [
  "VM.Allocate",
  "VM.Audit",
  "VM.Clone",
  ...["CDROM", "Cloudinit", "CPU", "Disk", "HWType", "Memory", "Network", "Options"].map(
    (part) => `VM.Config.${part}`,
  ),
  "VM.PowerMgmt",
];

const OF_STORAGES = ["Datastore.AllocateSpace", "Datastore.AllocateTemplate", "Datastore.Audit"];
const OF_NETWORKS = ["SDN.Use"];
const OF_NODES = ["Sys.Audit", "Sys.AccessNetwork"];
export const OF_MAPPINGS = ["Mapping.Use"];

/** All of it as one role: an ACL on a path takes the place of what is inherited there, so half a role would take away. */
export const roleOfDeployer: readonly string[] = [
  ...OF_MACHINES,
  "VM.Console",
  ...OF_STORAGES,
  ...OF_NETWORKS,
  ...OF_NODES,
].toSorted();

/** What is needed where. `missing`: machines as far as they are still to be made, which alone needs what is theirs. */
export function neededPrivileges(
  cluster: Cluster,
  provider: Cluster["providers"][number],
  missing: readonly Pick<Machine, "size">[] = [],
  network: string | null = `/sdn/zones/localnetwork/${cluster.network.bridge}`,
): ReadonlyMap<string, readonly string[]> {
  const { storage, pool, nodes, jump } = provider;
  // A line to a guest's port is for whoever may use its console.
  const ofMachines = jump?.kind === "platform" ? [...OF_MACHINES, "VM.Console"] : OF_MACHINES;
  const isOffline = cluster.image.offlineDir !== null || cluster.image.archive !== null;
  const extra = missing.flatMap(({ size }) => size.extraDisks.map((disk) => disk.storage));
  const disks = [...new Set([storage.vm, storage.efi, storage.cloudinit, ...extra])].filter(
    (name) => name !== storage.image,
  );
  const mappings = missing.flatMap(({ size }) => size.pci.map(({ mapping }) => mappingPath(mapping)));
  return new Map<string, readonly string[]>([
    [pool === null ? "/vms" : `/pool/${pool}`, ofMachines],
    [`/storage/${storage.image}`, OF_STORAGES],
    ...disks.map((name) => [`/storage/${name}`, ["Datastore.AllocateSpace", "Datastore.Audit"]] as const),
    ...(network === null ? [] : [[network, OF_NETWORKS] as const]),
    ...mappings.map((path) => [path, OF_MAPPINGS] as const),
    // Only what the platform fetches itself needs its way out.
    ...nodes.map((name) => [`/nodes/${name}`, isOffline ? ["Sys.Audit"] : OF_NODES] as const),
  ]);
}

export async function checkPrivileges(
  cluster: Cluster,
  provider: Cluster["providers"][number],
  missing: readonly Machine[],
  driver: Driver,
  network: string | null,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const [path, needed] of neededPrivileges(cluster, provider, missing, network)) {
    const held = await driver.privileges(path);
    const missing = needed.filter((privilege) => held?.has(privilege) === false);
    if (missing.length > 0) findings.push(error("privilege-missing", path, `missing: ${missing.join(", ")}`));
  }
  return findings;
}

/** Accounts of add-ons are made once Kubernetes runs, which is late to learn that the token may not make them. */
export async function checkAccounts(
  cluster: Cluster,
  provider: Cluster["providers"][number],
  driver: Driver,
): Promise<readonly Finding[]> {
  const { name, pool } = provider;
  const accounts = wantedAddons(cluster).flatMap(({ name: addon, account }) =>
    account === undefined ? [] : [{ addon, paths: account.paths(pool) }],
  );
  if (accounts.length === 0 || cluster.addons.ccm.proxmox.credentials === "given") return [];
  const needed = [
    ["/access", "Sys.Modify"],
    ["/access/realm/pve", "Realm.AllocateUser"],
    ["/access/groups", "User.Modify"],
    ...[...new Set(accounts.flatMap(({ paths }) => paths))].map((path) => [path, "Permissions.Modify"]),
  ] as const;
  const missing: string[] = [];
  for (const [path = "", privilege = ""] of needed)
    if ((await driver.privileges(path))?.has(privilege) === false) missing.push(`${privilege} on ${path}`);
  const who = accounts.map(({ addon }) => addon).join(" and ");
  const own = provider.endpoint ?? `the name ${provider.nodes[0]}`;
  return [
    ...(missing.length === 0
      ? []
      : [warning("addon-account", name, `for ${who} the token lacks ${missing.join(", ")}`)]),
    ...((await podEndpoint(provider, driver)) === undefined
      ? [warning("addon-endpoint", name, `for ${who} there is only ${own}`)]
      : []),
  ];
}
