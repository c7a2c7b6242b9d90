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
import { SECRET, TfvarsValues } from "./tfvars-values.ts";

const CONTROL_PLANE = "(?:control_?planes?|controllers?|masters?|cp)";
const WORKER = "workers?";
const STORE = "(?:datastores?|storages?)";

export function tfvarsCluster(values: Tree): ImportedCluster {
  const all = new TfvarsValues(values);
  const find = (pattern: RegExp): unknown => all.find(pattern);
  const listed = machines(values, all);
  const placed = placement(values, all);
  const counted = listed.length > 0 ? listed : countedMachines(find, placed);
  const length = numberOf(textOf(find(/(^|_)cidr$/))?.replace(/^\//, ""));
  const gateway = textOf(find(/(^|_)gateway$/));
  const cidr = textOf(find(/(^|_)(network_cidr|node_cidr|cidr|subnet)$/));
  const endpoint = textOf(
    find(/^(cluster_)?(config_)?(endpoint|vip|virtual_ip)$|cluster.*_(vip(_ip|_address)?|endpoint)$/),
  );
  const override = textOf(find(/endpoint_override$/));
  const bare = (endpoint ?? override)?.replace(/^https?:\/\//, "") ?? "";
  // "fd00::9" ends in what looks like a port.
  const host = isIP(bare) === 6 ? bare : bare.replace(/:\d+$/, "").replaceAll(/^\[|\]$/g, "");
  const isNodes = host !== "" && (endpoint === undefined || counted.some(({ address }) => address === host));
  const storage = (what: string): string | undefined =>
    textOf(find(new RegExp(`(^|_)(${what})_${STORE}(_id)?$|(^|_)${STORE}_(${what})$`)));
  const images = storage("iso|images?");
  const drives = storage("cloud_?init|snippets?");
  const disks = storage("vms?|disks?") ?? storage("templates?");
  const ccm = find(/ccm(_config)?_enabled$|enable_(proxmox_)?ccm$/);
  const cluster = {
    name: textOf(find(/^((talos|k8s|kubernetes)_)?cluster_(config_)?name$|^name$/)),
    talos: textOf(find(/talos_version$/)),
    kubernetes: textOf(find(/(kubernetes|k8s)_version$/)),
    ...(host === "" ? {} : isNodes ? { endpointHost: host } : { vip: host }),
    ...(endpoint === undefined || override === undefined
      ? {}
      : { extraSANs: [override.replace(/^https?:\/\//, "").replace(/:\d+$/, "")] }),
    nodeCIDR:
      cidr !== undefined && cidr.indexOf("/") > 0
        ? cidr
        : gateway && length
          ? `${gateway}/${length}`
          : undefined,
    gateway,
    dns: textsOf(find(/(^|_)(dns(_servers)?|nameservers)$/)),
    bridge: textOf(find(/bridge$/)),
    vlan: numberOf(find(/vlan(_id)?$/)),
    offsets: {
      controlPlane: numberOf(find(new RegExp(`${CONTROL_PLANE}.*(offset|ip_start|start_ip)$`))),
      worker: numberOf(find(new RegExp(`${WORKER}.*(offset|ip_start|start_ip)$`))),
    },
    apiEndpoint: textOf(find(/(^|_)(proxmox|pve|virtual_environment)_?(config_)?(api_)?(endpoint|url)$/)),
    storage: disks ?? textOf(find(/(datastore_id|datastore|storage)$/)),
    imageStorage: images,
    cloudInitStorage: drives,
    hosts: [
      ...placed.all,
      ...all.texts(/^(proxmox|pve)_?(config_)?(nodes?|node_names?)$|^(target_|pve_)?node(_name)?s?$/),
    ],
    templates: {
      controlPlane: numberOf(
        find(new RegExp(`template.*${CONTROL_PLANE}.*id$|${CONTROL_PLANE}_template.*id$`)),
      ),
      worker: numberOf(find(new RegExp(`template.*${WORKER}.*id$|${WORKER}_template.*id$`))),
      nodes: all.texts(/template.*(node|host)(_names?|s)?$/),
    },
    vmids: {
      controlPlane: all.range(`(vm_?)?id_?ranges?_${CONTROL_PLANE}`),
      worker: all.range(`(vm_?)?id_?ranges?_${WORKER}`),
    },
    tags: all.texts(/tags$/),
    ...(typeof ccm === "boolean" ? { hasCloudController: ccm } : {}),
    machines: counted,
    patchFiles: new Map<string, string>(),
  };
  const { left } = all;
  return {
    ...cluster,
    notes: [
      "Names of variables differ between modules: look through everything that was read.",
      ...(left.length > 0 ? [`Not taken over: ${left.join(", ")}.`] : []),
      ...(all.has(SECRET)
        ? ["Tokens and passwords were not taken over: tokenRef says where the token is read."]
        : []),
    ],
  };
}

interface Placement {
  readonly all: readonly string[];
  readonly controlPlane: readonly string[];
  readonly worker: readonly string[];
}

/** Which nodes machines are dealt out to: a list, a list for each role, or a map by node. */
function placement(values: Tree, all: TfvarsValues): Placement {
  const [key, said] =
    Object.entries(values).find(([name]) => /node_(distribution|placement)$/.test(name)) ?? [];
  const nobody = { all: [], controlPlane: [], worker: [] };
  if (key === undefined) return nobody;
  if (Array.isArray(said)) {
    all.take(key);
    return { ...nobody, all: textsOf(said) };
  }
  if (!isTree(said)) return nobody;
  const of = (role: string): readonly string[] => {
    const found = Object.entries(said).find(([name]) => new RegExp(`^${role}(_nodes?)?$`).test(name))?.[1];
    return isTree(found) ? Object.keys(found) : textsOf(found);
  };
  const [controlPlane, worker] = [of(CONTROL_PLANE), of(WORKER)];
  const isByRole = controlPlane.length + worker.length > 0;
  const isByNode =
    !isByRole && Object.values(said).every((value) => isTree(value) || typeof value === "number");
  if (isByRole || isByNode) all.take(key);
  return { all: isByNode ? Object.keys(said) : [], controlPlane, worker };
}

/** Maps of maps (or lists of them) in which each one has an address, a VMID or a node. */
function machines(tree: Tree, all: TfvarsValues, group = ""): readonly ImportedMachine[] {
  return Object.entries(tree).flatMap(([key, value]): readonly ImportedMachine[] => {
    const entries: readonly (readonly [string, unknown])[] = Array.isArray(value)
      ? (value as unknown[]).map((item, at) => [`${key}-${at + 1}`, item])
      : isTree(value)
        ? Object.entries(value)
        : [];
    const found = entries.filter((entry): entry is readonly [string, Tree] => isMachine(entry[1]));
    if (found.length === 0) return isTree(value) && group === "" ? machines(value, all, key) : [];
    all.take(group === "" ? key : `${group}_${key}`);
    return found.map(([name, item]) => machine(name, item, key));
  });
}

function isMachine(value: unknown): value is Tree {
  if (!isTree(value)) return false;
  const keys = Object.keys(value);
  const hasPlace = keys.some((key) =>
    /^(ip(_addr(ess)?)?|vm_?id|pve_id|host_node|pve_node|target_node)$/.test(key),
  );
  return (
    hasPlace && keys.some((key) => /^(cpu|cores|memory|ram|ram_dedicated|hostname|machine_type)/.test(key))
  );
}

function machine(name: string, item: Tree, group: string): ImportedMachine {
  const find = (pattern: RegExp): unknown => Object.entries(item).find(([key]) => pattern.test(key))?.[1];
  const called = textOf(find(/^(hostname|name)$/)) ?? name;
  const isTold = /control|master|worker|^cp/i.test(group);
  const role = textOf(find(/^(machine_type|role|type)$/)) ?? (isTold ? group : called);
  const isAddress = /^[\d.]+$|:/.test(name);
  return {
    hostname: hostnameOf(isAddress && called === name ? "" : called),
    isControlPlane: /control|master|(^|[-_])cp([-_\d]|$)/i.test(role),
    address: [textOf(find(/^ip(_addr(ess)?)?$/))?.split("/")[0], name].find(
      (address) => isIP(address ?? "") !== 0,
    ),
    mac: textOf(find(/^mac(_address)?$/)),
    vmid: numberOf(find(/^(vm_?id|pve_id)$/)),
    host: textOf(find(/^(host_node|pve_node|target_node|node(_name)?)$/)),
    cores: numberOf(find(/^(cpu|cores|cpu_cores)$/)),
    memoryMiB: memoryOf(find(/^(ram_dedicated|memory|ram|memory_mb)$/)),
    diskGiB: numberOf(find(/^(os_disk_size|disk_size|disk)$/)),
  };
}

/** No machine runs with so few MiB: that many are GiB. */
const MOST_GIB = 512;

function memoryOf(value: unknown): number | undefined {
  const number = numberOf(value);
  return number === undefined || number > MOST_GIB ? number : number * 1024;
}

/** Modules that only count their machines. */
function countedMachines(find: (pattern: RegExp) => unknown, placed: Placement): readonly ImportedMachine[] {
  const of = (
    role: string,
    hosts: readonly string[],
    isControlPlane: boolean,
  ): readonly ImportedMachine[] => {
    const pattern = (what: string): RegExp => new RegExp(`${role}(_nodes?)?_(${what})$`);
    const size = {
      cores: numberOf(find(pattern("cores|cpu|cpus|cpu_cores"))),
      memoryMiB: memoryOf(find(pattern("memory|memory_mb|ram"))),
      diskGiB: numberOf(find(pattern("disk|disk_size|disk_gb"))),
    };
    return Array.from({ length: numberOf(find(pattern("count"))) ?? 0 }, (_none, at) => ({
      hostname: "",
      isControlPlane,
      ...size,
      host: hosts.length === 0 ? undefined : hosts[at % hosts.length],
    }));
  };
  return [...of(CONTROL_PLANE, placed.controlPlane, true), ...of(WORKER, placed.worker, false)];
}
