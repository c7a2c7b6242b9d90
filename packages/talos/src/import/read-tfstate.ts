// A state of Terraform or OpenTofu with machines of the bpg provider: what really was made.
import { isIP } from "node:net";
import {
  type ImportedCluster,
  type ImportedMachine,
  hostnameOf,
  hostOf,
  isTree,
  listOf,
  numberOf,
  portOf,
  textOf,
  textsOf,
  type Tree,
  treeAt,
} from "./imported-cluster.ts";
import { isControlPlane } from "./machine-role.ts";

export const isTfstate = (value: unknown): value is Tree =>
  isTree(value) && Array.isArray(value["resources"]) && "terraform_version" in value;

export function readTfstate(state: Tree): ImportedCluster {
  const resources = listOf(state["resources"]).filter(isTree);
  const of = (type: string): readonly Tree[] =>
    resources
      .filter((resource) => resource["type"] === type && resource["mode"] === "managed")
      .flatMap((resource) => listOf(resource["instances"]))
      .map((instance) => treeAt(instance, "attributes"))
      .filter(isTree);
  const vms = of("proxmox_virtual_environment_vm").filter((vm) => vm["template"] !== true);
  const all = (...path: readonly (string | number)[]): readonly unknown[] =>
    vms.map((vm) => treeAt(vm, ...path));
  const firstText = (...path: readonly (string | number)[]): string | undefined =>
    all(...path)
      .map(textOf)
      .find((text) => text !== undefined);
  const configurations = resources
    .filter(({ type }) => type === "talos_machine_configuration")
    .flatMap((resource) => listOf(resource["instances"]).map((instance) => treeAt(instance, "attributes")));
  const url = URL.parse(textOf(treeAt(configurations[0], "cluster_endpoint")) ?? "");
  const host = hostOf(url);
  const roles = rolesOf(of("talos_machine_configuration_apply"));
  const machines = vms.map((vm) => machine(vm, roles));
  const isNodes = machines.some(({ address }) => address === host);
  return {
    name: textOf(treeAt(configurations[0], "cluster_name")),
    talos: textOf(treeAt(configurations[0], "talos_version")),
    kubernetes: textOf(treeAt(configurations[0], "kubernetes_version")),
    ...(host === undefined ? {} : isNodes ? { endpointHost: host } : { vip: host }),
    port: url === null ? undefined : portOf(url),
    nodeCIDR: all(...OWN_ADDRESS)
      .map(textOf)
      .find((address) => address?.includes("/")),
    asksForAddresses: all(...OWN_ADDRESS).every((address) => address === "dhcp"),
    gateway: firstText("initialization", 0, "ip_config", 0, "ipv4", 0, "gateway"),
    dns: textsOf(all("initialization", 0, "dns", 0, "servers").find((list) => listOf(list).length > 0)),
    bridge: firstText("network_device", 0, "bridge"),
    vlan: all("network_device", 0, "vlan_id")
      .map(numberOf)
      .find((id) => id !== undefined),
    storage: vms.map((vm) => textOf(disksOf(vm)[0]?.["datastore_id"])).find((text) => text !== undefined),
    tags: textsOf(vms[0]?.["tags"]),
    machines,
    patchFiles: new Map(),
    notes: [
      ...(machines.length === 0 ? ["The state has no machines of the bpg provider."] : []),
      ...(of("talos_machine_secrets").length > 0
        ? [
            "The state holds the cluster's secrets; they were not read. Export them as talosctl's bundle and import that.",
          ]
        : []),
    ],
  };
}

/** The one that is booted first, then by their numbers: a state has them in the order of the file. */
function disksOf(vm: Tree): readonly Tree[] {
  const boot = textsOf(vm["boot_order"]);
  const placeOf = (disk: Tree): number => {
    const name = textOf(disk["interface"]) ?? "";
    return boot.includes(name)
      ? boot.indexOf(name) - boot.length
      : Number(/\d+$/.exec(name)?.[0] ?? Infinity);
  };
  const disks = listOf(vm["disk"])
    .filter(isTree)
    .map((disk) => ({ disk, place: placeOf(disk) }));
  return disks
    .toSorted((a, b) => (a.place < b.place ? -1 : a.place > b.place ? 1 : 0))
    .map(({ disk }) => disk);
}

const OWN_ADDRESS = ["initialization", 0, "ip_config", 0, "ipv4", 0, "address"] as const;

/** What it was told, or, where it had to ask, what its agent said of its first card behind the loopback. */
function addressOf(vm: Tree): string | undefined {
  const told = textOf(treeAt(vm, ...OWN_ADDRESS))?.split("/")[0];
  if (told !== undefined && isIP(told) !== 0) return told;
  return listOf(vm["ipv4_addresses"])
    .flatMap(textsOf)
    .find((address) => isIP(address) !== 0 && !address.startsWith("127."));
}

/** By the nodes that configurations were applied to: whether each is a control plane. Nothing else of them is read. */
function rolesOf(applied: readonly Tree[]): ReadonlyMap<string, boolean> {
  return new Map(
    applied.flatMap((each): readonly (readonly [string, boolean])[] => {
      const node = textOf(each["node"]);
      const text = textOf(each["machine_configuration"]) ?? textOf(each["machine_configuration_input"]);
      const type = /^"?machine"?:(?:\n[ \t].*)*?\n[ \t]+"?type"?: *"?(controlplane|init|worker)\b/m.exec(
        text ?? "",
      );
      return node === undefined || type === null ? [] : [[node, type[1] !== "worker"]];
    }),
  );
}

function machine(vm: Tree, roles: ReadonlyMap<string, boolean>): ImportedMachine {
  const hostname = hostnameOf(textOf(vm["name"]) ?? "");
  const address = addressOf(vm);
  const [system, ...extra] = disksOf(vm);
  return {
    hostname,
    isControlPlane:
      roles.get(address ?? "") ??
      roles.get(hostname) ??
      isControlPlane(...textsOf(vm["tags"]), hostname) === true,
    address,
    mac: textOf(treeAt(vm, "network_device", 0, "mac_address")),
    vmid: numberOf(vm["vm_id"]),
    host: textOf(vm["node_name"]),
    cores: numberOf(treeAt(vm, "cpu", 0, "cores")),
    memoryMiB: numberOf(treeAt(vm, "memory", 0, "dedicated")),
    diskGiB: numberOf(system?.["size"]),
    extraDisks: extra.flatMap((disk) => {
      const gib = numberOf(disk["size"]);
      const storage = textOf(disk["datastore_id"]);
      return gib === undefined || storage === undefined ? [] : [{ gib, storage }];
    }),
  };
}
