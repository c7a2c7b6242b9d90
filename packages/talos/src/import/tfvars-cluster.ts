// What people's Terraform variables say of a cluster. Names differ from module to module, so they are known by what they
// mean: cluster_name, cluster.name and cluster_config.name are the same thing.
import { isIP } from "node:net";
import {
  type ImportedCluster,
  type ImportedMachine,
  numberOf,
  textOf,
  textsOf,
  type Tree,
} from "./imported-cluster.ts";
import { CONTROL_PLANE, placement, tfvarsMachines, WORKER } from "./tfvars-machines.ts";
import { SECRET, TfvarsValues } from "./tfvars-values.ts";

const STORE = "(?:datastores?|storages?)";
const OFFSET = "(offset|ip_start|start_ip|first_hostnum|hostnum)$";
const VIP =
  /^(cluster_|network_)?(config_)?(vip|virtual_ip)(_ip|_addr(ess)?)?$|cluster.*_(vip|virtual_ip)(_ip|_addr(ess)?)?$/;

export function tfvarsCluster(values: Tree): ImportedCluster {
  const all = new TfvarsValues(values);
  const placed = placement(values, all);
  const machines = tfvarsMachines(values, all, placed);
  const length = all.find(/(^|_)(cidr|subnet_mask|netmask|prefix(_length)?)$/, (value) =>
    numberOf(textOf(value)?.replace(/^\//, "")),
  );
  const gateway = all.text(/(^|_)gateway$/);
  const cidr = all.find(/^(?!.*(pods?|services?|svc)_)(.*_)?(cidr|subnet|node_network)$/, (value) =>
    textOf(value)?.includes("/") === true && !textOf(value)?.startsWith("/") ? textOf(value) : undefined,
  );
  const storage = (what: string): string | undefined =>
    all.text(new RegExp(`(^|_)(${what})_${STORE}(_id)?$|(^|_)${STORE}_(${what})$`));
  const images = storage("iso|images?");
  const drives = storage("cloud_?init|snippets?");
  const disks = storage("vms?|disks?") ?? storage("templates?");
  const tagsOf = (role: string): RegExp => new RegExp(`(^|_)${role}(_nodes?|_vms?)?(_extra|_common)?_tags$`);
  const cluster = {
    name: all.text(/^((talos|k8s|kubernetes)_)?cluster_(config_)?(cluster_)?name$|^name$/),
    talos: all.text(/talos_version$/) ?? all.text(/talos_(\w+_)?version$/),
    kubernetes: all.text(/(kubernetes|k8s)_version$/),
    ...endpointOf(all, machines),
    nodeCIDR: cidr ?? (gateway && length ? `${gateway}/${length}` : undefined),
    gateway,
    dns: all.find(/(^|_)(dns(_servers)?|nameservers)$/, (value) =>
      textsOf(value).length > 0 ? textsOf(value) : undefined,
    ),
    bridge: all.text(/bridge$/),
    vlan: all.number(/vlan(_id)?$/),
    offsets: {
      controlPlane: all.number(new RegExp(`${CONTROL_PLANE}.*${OFFSET}`)),
      worker: all.number(new RegExp(`${WORKER}.*${OFFSET}`)),
    },
    apiEndpoint: all.text(/(^|_)(proxmox|pve|virtual_environment)_?(config_)?(api_)?(endpoint|url)$/),
    storage: disks ?? all.text(/(datastore_id|datastore|storage)$/),
    imageStorage: images,
    cloudInitStorage: drives,
    hosts: [
      ...placed.all,
      ...all.texts(
        /^(proxmox_pve|proxmox|pve)_?(config_)?(nodes?|node_names?)$|^(target_|pve_)?node(_name)?s?$/,
      ),
    ],
    templates: {
      controlPlane: all.number(new RegExp(`template.*${CONTROL_PLANE}.*id$|${CONTROL_PLANE}_template.*id$`)),
      worker: all.number(new RegExp(`template.*${WORKER}.*id$|${WORKER}_template.*id$`)),
      nodes: all.texts(/template.*(node|host)(_names?|s)?$/),
    },
    vmids: {
      controlPlane: all.range(`(vm_?)?id_?ranges?_${CONTROL_PLANE}`),
      worker: all.range(`(vm_?)?id_?ranges?_${WORKER}`),
    },
    workerTags: all.texts(tagsOf(WORKER)),
    // Control planes have none of their own in cluster.yaml: theirs are among what is named as left.
    tags: all.texts(/tags$/, new RegExp(`${tagsOf(WORKER).source}|${tagsOf(CONTROL_PLANE).source}`)),
    hasCloudController: all.flag(/ccm(_config)?_enabled$|enable_(proxmox_)?ccm$/),
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

/** Where the API is: a VIP that is switched off is none, and a URL beside one is what machines were told. */
function endpointOf(all: TfvarsValues, machines: readonly ImportedMachine[]) {
  const hasVip = all.flag(/(^|_)(enable|use)_(vip|virtual_ip)$|(^|_)(vip|virtual_ip)_enabled$/) ?? true;
  const said = hostIn(all.text(VIP));
  const vip = hasVip ? said : undefined;
  const endpoint = hostIn(all.text(/^(cluster_)?(config_)?endpoint$|cluster.*_endpoint$/));
  const override = hostIn(all.text(/endpoint_override$/));
  const isNodes = (host: string | undefined): boolean => machines.some(({ address }) => address === host);
  // Modules call a VIP the endpoint; a name alone is what the API is known by.
  const main = vip ?? endpoint;
  const extraSANs = main === undefined || override === undefined ? [] : [override];
  if (main === undefined) return { endpointHost: override };
  if (isNodes(main)) return { endpointHost: main, extraSANs };
  const other = vip === undefined || endpoint === vip || isNodes(endpoint) ? undefined : endpoint;
  return { vip: main, endpointHost: other, extraSANs };
}

/** The host of a URL, of HOST:PORT, or alone. */
function hostIn(text: string | undefined): string | undefined {
  const bare = text?.replace(/^https?:\/\//, "").replace(/\/.*$/, "") ?? "";
  // "fd00::9" ends in what looks like a port.
  const host = isIP(bare) === 6 ? bare : bare.replace(/:\d+$/, "").replaceAll(/^\[|\]$/g, "");
  return host === "" ? undefined : host;
}
