// What people's Terraform variables say of a cluster. Names differ from module to module, so they are known by what they
// mean: cluster_name, cluster.name and cluster_config.name are the same thing.
import { isIP } from "node:net";
import {
  hostnameOf,
  type ImportedCluster,
  type ImportedMachine,
  isTree,
  numberOf,
  textOf,
  textsOf,
  type Tree,
} from "./imported-cluster.ts";

interface Named {
  readonly path: string;
  readonly value: unknown;
}

export function tfvarsCluster(values: Tree): ImportedCluster {
  const all = flatten(values, "");
  const find = (pattern: RegExp): unknown => all.find(({ path }) => pattern.test(path))?.value;
  const listed = machines(values);
  const counted = listed.length > 0 ? listed : countedMachines(find);
  const length = numberOf(find(/(^|_)cidr$/));
  const gateway = textOf(find(/(^|_)gateway$/));
  const cidr = textOf(find(/(^|_)(network_cidr|node_cidr|cidr|subnet)$/));
  const endpoint = textOf(find(/^(cluster_)?(config_)?(endpoint|vip|virtual_ip)$|cluster.*_(vip|endpoint)$/));
  const bare = endpoint?.replace(/^https?:\/\//, "") ?? "";
  // "fd00::9" ends in what looks like a port.
  const host = endpoint && (isIP(bare) === 6 ? bare : bare.replace(/:\d+$/, "").replaceAll(/^\[|\]$/g, ""));
  const isNodes = counted.some(({ address }) => address === host);
  return {
    name: textOf(find(/^(cluster_(config_)?name|name)$/)),
    talos: textOf(find(/talos_version$/)),
    kubernetes: textOf(find(/(kubernetes|k8s)_version$/)),
    ...(isNodes ? { endpointHost: host } : { vip: host }),
    nodeCIDR: cidr?.includes("/") === true ? cidr : gateway && length ? `${gateway}/${length}` : undefined,
    gateway,
    dns: textsOf(find(/(^|_)(dns(_servers)?|nameservers)$/)),
    bridge: textOf(find(/bridge$/)),
    vlan: numberOf(find(/vlan(_id)?$/)),
    apiEndpoint: textOf(find(/(^|_)(proxmox|pve|virtual_environment)_?(config_)?(api_)?(endpoint|url)$/)),
    storage: textOf(find(/(vm_datastore|datastore_id|datastore|storage)$/)),
    imageStorage: textOf(find(/(iso|image)_datastore(_id)?$/)),
    tags: textsOf(find(/tags$/)),
    machines: counted,
    patchFiles: new Map(),
    notes: [
      "Names of variables differ between modules: look through everything that was read.",
      ...(all.some(({ path }) => /token|password|secret/.test(path))
        ? ["Tokens and passwords were not taken over: tokenRef says where the token is read."]
        : []),
    ],
  };
}

/** Keys joined by "_", those of groups first. */
function flatten(tree: Tree, prefix: string): readonly Named[] {
  return Object.entries(tree).flatMap(([key, value]): readonly Named[] => {
    const path = prefix === "" ? key : `${prefix}_${key}`;
    return isTree(value) ? flatten(value, path) : [{ path, value }];
  });
}

/** Maps of maps (or lists of them) in which each one has an address, a VMID or a node. */
function machines(tree: Tree, group = ""): readonly ImportedMachine[] {
  return Object.entries(tree).flatMap(([key, value]): readonly ImportedMachine[] => {
    const entries: readonly (readonly [string, unknown])[] = Array.isArray(value)
      ? (value as unknown[]).map((item, at) => [`${key}-${at + 1}`, item])
      : isTree(value)
        ? Object.entries(value)
        : [];
    const found = entries.filter((entry): entry is readonly [string, Tree] => isMachine(entry[1]));
    if (found.length > 0) return found.map(([name, item]) => machine(name, item, key));
    return isTree(value) && group === "" ? machines(value, key) : [];
  });
}

function isMachine(value: unknown): value is Tree {
  if (!isTree(value)) return false;
  const keys = Object.keys(value);
  const hasPlace = keys.some((key) =>
    /^(ip(_address)?|vm_?id|pve_id|host_node|pve_node|target_node)$/.test(key),
  );
  return (
    hasPlace && keys.some((key) => /^(cpu|cores|memory|ram|ram_dedicated|hostname|machine_type)/.test(key))
  );
}

function machine(name: string, item: Tree, group: string): ImportedMachine {
  const find = (pattern: RegExp): unknown => Object.entries(item).find(([key]) => pattern.test(key))?.[1];
  const role = textOf(find(/^(machine_type|role|type)$/)) ?? group;
  const isAddress = /^[\d.]+$|:/.test(name);
  return {
    hostname: hostnameOf(textOf(find(/^(hostname|name)$/)) ?? (isAddress ? "" : name)),
    isControlPlane: /control|master|^cp/i.test(role),
    address: [textOf(find(/^ip(_address)?$/))?.split("/")[0], name].find(
      (address) => isIP(address ?? "") !== 0,
    ),
    mac: textOf(find(/^mac(_address)?$/)),
    vmid: numberOf(find(/^(vm_?id|pve_id)$/)),
    host: textOf(find(/^(host_node|pve_node|target_node|node(_name)?)$/)),
    cores: numberOf(find(/^(cpu|cores|cpu_cores)$/)),
    memoryMiB: numberOf(find(/^(ram_dedicated|memory|ram|memory_mb)$/)),
    diskGiB: numberOf(find(/^(os_disk_size|disk_size|disk)$/)),
  };
}

/** Modules that only count their machines. */
function countedMachines(find: (pattern: RegExp) => unknown): readonly ImportedMachine[] {
  const of = (role: string, isControlPlane: boolean): readonly ImportedMachine[] => {
    const pattern = (what: string): RegExp => new RegExp(`${role}s?(_nodes?)?_(${what})$`);
    return Array.from({ length: numberOf(find(pattern("count"))) ?? 0 }, () => ({
      hostname: "",
      isControlPlane,
      cores: numberOf(find(pattern("cores|cpu|cpu_cores"))),
      memoryMiB: numberOf(find(pattern("memory|memory_mb|ram"))),
      diskGiB: numberOf(find(pattern("disk|disk_size"))),
    }));
  };
  return [...of("(control_?plane|controller|master)", true), ...of("worker", false)];
}
