// What people's Terraform variables say of a cluster. Names differ from module to module, so they are known by what they
// mean: cluster_name, cluster.name and cluster_config.name are the same thing.
import { isIP } from "node:net";
import { type ImportedCluster, numberOf, textOf, textsOf, type Tree } from "./imported-cluster.ts";
import { CONTROL_PLANE, placement, tfvarsMachines, WORKER } from "./tfvars-machines.ts";
import { SECRET, TfvarsValues } from "./tfvars-values.ts";

const STORE = "(?:datastores?|storages?)";

export function tfvarsCluster(values: Tree): ImportedCluster {
  const all = new TfvarsValues(values);
  const find = (pattern: RegExp): unknown => all.find(pattern);
  const placed = placement(values, all);
  const machines = tfvarsMachines(values, all, placed);
  const length = numberOf(
    textOf(find(/(^|_)(cidr|subnet_mask|netmask|prefix(_length)?)$/))?.replace(/^\//, ""),
  );
  const gateway = textOf(find(/(^|_)gateway$/));
  const cidr = textOf(find(/(^|_)(network_cidr|node_cidr|cidr|subnet)$/));
  const endpoint = textOf(
    find(/^(cluster_)?(config_)?(endpoint|vip|virtual_ip)$|cluster.*_(vip(_ip|_address)?|endpoint)$/),
  );
  const override = textOf(find(/endpoint_override$/));
  const bare = (endpoint ?? override)?.replace(/^https?:\/\//, "") ?? "";
  // "fd00::9" ends in what looks like a port.
  const host = isIP(bare) === 6 ? bare : bare.replace(/:\d+$/, "").replaceAll(/^\[|\]$/g, "");
  const isNodes = host !== "" && (endpoint === undefined || machines.some(({ address }) => address === host));
  const storage = (what: string): string | undefined =>
    textOf(find(new RegExp(`(^|_)(${what})_${STORE}(_id)?$|(^|_)${STORE}_(${what})$`)));
  const images = storage("iso|images?");
  const drives = storage("cloud_?init|snippets?");
  const disks = storage("vms?|disks?") ?? storage("templates?");
  const ccm = find(/ccm(_config)?_enabled$|enable_(proxmox_)?ccm$/);
  const cluster = {
    name: textOf(find(/^((talos|k8s|kubernetes)_)?cluster_(config_)?name$|^name$/)),
    talos: textOf(find(/talos_version$/) ?? find(/talos_(\w+_)?version$/)),
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
    machines,
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
