// cluster.yaml out of what another tool said. Machines keep their names, addresses, MACs and VMIDs.
import { isIP } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { stringify } from "yaml";
import { addressAt, contains, isNetwork, networkOf } from "../cluster/networks.ts";
import { type ImportedCluster, type ImportedMachine, labelOf } from "./imported-cluster.ts";

export interface ImportOptions {
  readonly provider: "gpve" | "pve-api" | "qm";
  readonly endpoint: string | undefined;
  readonly recipients: readonly string[];
  readonly source: string;
}

const PODS6 = "fd00:10:244::/56";
const SERVICES6 = "fd00:10:96::/112";
/** What network.ipam.controlPlaneOffset is by itself. */
const FIRST_OFFSET = 10;

/** The text, and what had to be assumed. */
export function writeImported(
  cluster: ImportedCluster,
  options: ImportOptions,
): { readonly text: string; readonly assumed: readonly string[] } {
  const assumed: string[] = [];
  const or = <T>(value: T | undefined, fallback: T, what: string): T => {
    if (value === undefined) assumed.push(`${what} is not known; ${JSON.stringify(fallback)} was written.`);
    return value ?? fallback;
  };
  const controlPlanes = cluster.machines.filter(({ isControlPlane }) => isControlPlane);
  const workers = cluster.machines.filter(({ isControlPlane }) => !isControlPlane);
  if (controlPlanes.length === 0) {
    throw new AppError("config.invalid", `${options.source} names no control plane that can be told as one`, {
      data: {
        finding: "import-no-control-plane",
        next: "Nothing was written.",
      },
    });
  }
  const name = labelOf(or(cluster.name, "talos", "the cluster's name"));
  const first = controlPlanes[0]?.address ?? cluster.gateway ?? "192.168.1.0";
  const said = cluster.nodeCIDR !== undefined && isNetwork(cluster.nodeCIDR) ? cluster.nodeCIDR : undefined;
  const nodeCIDR = or(
    said && networkOf(said),
    networkOf(`${first}/${first.includes(":") ? 64 : 24}`),
    "the network",
  );
  if (cluster.nodeCIDR6 !== undefined)
    assumed.push("Addresses of IPv6 are those of network.nodeCIDR6 and network.ipam: compare them.");
  // What holds by default is of IPv4.
  const inside = (cidrs: readonly string[] = [], fallback: string, what: string): readonly string[] =>
    nodeCIDR.includes(":") && cidrs.length === 0 ? or(undefined, [fallback], what) : cidrs;
  const gateway = or(cluster.gateway, addressAt(nodeCIDR, 1) ?? "", "the gateway");
  const storage = or(cluster.storage, "local", "the storage");
  const hosts = [
    ...new Set([...(cluster.hosts ?? []), ...cluster.machines.flatMap(({ host }) => host ?? [])]),
  ];
  const groups = new Map(poolsOf(workers));
  const own = (extensions: readonly string[] = []) =>
    extensions.filter((extension) => cluster.extensions?.includes(extension) !== true);
  const tree = {
    apiVersion: "gpve.io/v1",
    kind: "TalosCluster",
    metadata: { name },
    versions: {
      talos: version(or(cluster.talos, "v1.13.9", "the Talos version")),
      ...(cluster.kubernetes === undefined ? {} : { kubernetes: version(cluster.kubernetes) }),
    },
    ...unlessEmpty("image", {
      ...given({ factory: cluster.factory }),
      ...unlessEmpty("extensions", cluster.extensions),
      ...unlessEmpty("kernelArgs", cluster.kernelArgs),
    }),
    providers: [
      {
        name: options.provider,
        type: options.provider,
        ...(options.provider === "qm"
          ? {}
          : {
              endpoint: or(
                options.endpoint ?? cluster.apiEndpoint,
                "https://pve:8006",
                "the platform's URL",
              ).replace(/\/(api2\/json)?\/?$/, ""),
              tokenRef: { env: options.provider === "gpve" ? "GPVE_TOKEN" : "PVE_TOKEN" },
            }),
        nodes: hosts.length > 0 ? hosts : or(undefined, ["pve"], "the list of the platform's nodes"),
        storage: {
          // Proxmox' block storages, as local-lvm is one, take no image as a file.
          image:
            cluster.imageStorage ??
            (/lvm|zfs|rbd|ceph/.test(storage) ? or(undefined, "local", "the storage of images") : storage),
          vm: storage,
          efi: storage,
          cloudinit: cluster.cloudInitStorage ?? storage,
        },
      },
    ],
    network: {
      nodeCIDR,
      ...(cluster.nodeCIDR6 === undefined ? {} : { nodeCIDR6: networkOf(cluster.nodeCIDR6) }),
      gateway,
      ...(cluster.asksForAddresses === true ? { addressing: "dhcp" } : {}),
      ...unlessEmpty("dns", cluster.dns),
      ...given({ bridge: cluster.bridge, vlan: cluster.vlan, mtu: cluster.mtu }),
      ...unlessEmpty(
        "ipam",
        given({
          controlPlaneOffset: cluster.offsets?.controlPlane,
          workerOffset: cluster.offsets?.worker,
        }),
      ),
      ...unlessEmpty("podCIDRs", inside(cluster.podCIDRs, PODS6, "the pods' network")),
      ...unlessEmpty("serviceCIDRs", inside(cluster.serviceCIDRs, SERVICES6, "the services' network")),
      ...given({ dnsDomain: cluster.dnsDomain }),
    },
    endpoint: endpoint(cluster, nodeCIDR, controlPlanes, assumed),
    ...unlessEmpty(
      "vmids",
      given({ controlPlane: cluster.vmids?.controlPlane, worker: cluster.vmids?.worker }),
    ),
    ...unlessEmpty("templates", templatesOf(cluster)),
    ...unlessEmpty("tags", tagsOf(cluster.tags)),
    controlPlane: {
      count: controlPlanes.length,
      ...(cluster.schedulable === true ? { schedulable: true } : {}),
      ...sizeOf(controlPlanes[0]),
      ...patches(cluster.controlPlanePatches),
    },
    pools: [...groups].map(([pool, members]) => ({
      name: pool,
      count: members.length,
      ...sizeOf(members[0]),
      ...unlessEmpty("labels", members[0]?.labels),
      ...unlessEmpty("taints", members[0]?.taints),
      ...unlessEmpty("tags", tagsOf(cluster.workerTags)),
      ...unlessEmpty("extensions", own(members[0]?.extensions)),
      ...patches(cluster.workerPatches),
    })),
    ...unlessEmpty(
      "nodes",
      Object.fromEntries(
        [
          ...overrides(name, "cp", controlPlanes),
          ...[...groups].flatMap(([pool, members]) => overrides(name, pool, members)),
        ].filter(([, own]) => Object.keys(own).length > 0),
      ),
    ),
    ...unlessEmpty("talos", patches(cluster.patches)),
    addons: {
      cni: { type: or(cluster.cni, "cilium", "the network plugin") },
      ...(cluster.hasCloudController === undefined
        ? {}
        : { ccm: { proxmox: { enabled: cluster.hasCloudController } } }),
    },
    secrets: { file: `${name}.secrets.enc.yaml`, recipients: options.recipients },
  };
  const head = [`Imported from ${options.source}.`, ...cluster.notes, ...assumed].map(
    (line) => `# ${line}\n`,
  );
  return {
    text: `${head.join("")}${stringify(tree, { lineWidth: 0, aliasDuplicateObjects: false })}`,
    assumed,
  };
}

/** Workers with the same labels, taints and extensions are one pool. */
function poolsOf(
  workers: readonly ImportedMachine[],
): readonly (readonly [string, readonly ImportedMachine[]])[] {
  const sorted = (map: Readonly<Record<string, string>> = {}) =>
    Object.entries(map).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const groups = Map.groupBy(workers, ({ labels, taints, extensions = [] }) =>
    JSON.stringify([sorted(labels), sorted(taints), extensions.toSorted()]),
  );
  return [...groups.values()].map((members, at) => [at === 0 ? "worker" : `worker${at + 1}`, members]);
}

const tagsOf = (tags: readonly string[] | undefined) => tags?.map((tag) => tag.toLowerCase());

function templatesOf({ templates }: ImportedCluster): Record<string, unknown> {
  const { controlPlane, worker, nodes = [] } = templates ?? {};
  if (controlPlane === undefined && worker === undefined) return {};
  return { ...given({ controlPlane, worker }), ...unlessEmpty("nodes", nodes) };
}

function overrides(cluster: string, pool: string, members: readonly ImportedMachine[]) {
  const usual = sizeOf(members[0])?.machine ?? {};
  return members.map((member, at) => {
    const own = Object.entries(sizeOf(member)?.machine ?? {}).filter(
      ([key, value]) => JSON.stringify(value) !== JSON.stringify((usual as Record<string, unknown>)[key]),
    );
    const name = `${cluster}-${pool}-${at + 1}`;
    const { hostname, address, mac, vmid, host } = member;
    return [
      name,
      {
        ...(hostname === "" || hostname === name ? {} : { hostname }),
        ...given({ host, ip: address, vmid, mac }),
        ...unlessEmpty("machine", Object.fromEntries(own)),
        ...patches(member.patches),
      },
    ] as const;
  });
}

function endpoint(
  { vip, endpointHost, port, extraSANs = [], offsets, machines }: ImportedCluster,
  nodeCIDR: string,
  controlPlanes: readonly ImportedMachine[],
  assumed: string[],
) {
  const hasBoth = vip !== undefined && endpointHost !== undefined && vip !== endpointHost;
  // Machines' own addresses are in their certificates anyway.
  const isOther = hasBoth && !machines.some(({ address }) => address === endpointHost);
  const names = isOther ? [...new Set([...extraSANs, endpointHost])] : extraSANs;
  const rest = { ...given({ port }), ...unlessEmpty("extraSANs", names) };
  // The name stays what machines and kubeconfigs are told, and the VIP where it leads to.
  if (hasBoth && isIP(endpointHost) === 0 && contains(nodeCIDR, vip)) {
    const others = extraSANs.filter((name) => name !== vip && name !== endpointHost);
    return { vip, dns: endpointHost, ...given({ port }), ...unlessEmpty("extraSANs", others) };
  }
  if (vip !== undefined) {
    if (hasBoth) {
      assumed.push(
        `the endpoint was ${endpointHost}; machines and kubeconfigs are told the VIP ${vip}${isOther ? `, and ${endpointHost} stays a name of the API (endpoint.extraSANs)` : ""}.`,
      );
    }
    return { ...(contains(nodeCIDR, vip) ? { vip } : { dns: vip }), ...rest };
  }
  const isOwn = controlPlanes.length === 1 && controlPlanes[0]?.address === endpointHost;
  if (endpointHost !== undefined) return isOwn ? rest : { dns: endpointHost, ...rest };
  if (controlPlanes.length === 1) return rest;
  const first = controlPlanes[0]?.address;
  if (first === undefined) {
    // The address before those of the control planes, as in a new file.
    const free = addressAt(nodeCIDR, (offsets?.controlPlane ?? FIRST_OFFSET) - 1);
    assumed.push(`the endpoint is not known; the VIP ${free} was written, which has to be free.`);
    return { vip: free, ...rest };
  }
  assumed.push(`the endpoint is not known; the first control plane's address ${first} was written.`);
  return { dns: first, ...rest };
}

function sizeOf(machine: ImportedMachine | undefined): { machine: Record<string, unknown> } | undefined {
  const { cores, memoryMiB, diskGiB, extraDisks } = machine ?? {};
  const size = {
    ...given({ cores, memoryMiB, diskGiB }),
    ...unlessEmpty("extraDisks", extraDisks),
  };
  return Object.keys(size).length === 0 ? undefined : { machine: size };
}

function patches(files: readonly string[] | undefined) {
  return unlessEmpty(
    "patches",
    files?.map((file) => ({ file })),
  );
}

function unlessEmpty(key: string, value: object | undefined): Record<string, unknown> {
  return value === undefined || Object.keys(value).length === 0 ? {} : { [key]: value };
}

function version(text: string): string {
  // "v1.10" names a minor; its first patch release is the nearest that can be written.
  return /^v?\d+\.\d+$/.test(text) ? `${text.replace(/^v?/, "v")}.0` : text.replace(/^v?/, "v");
}
