// What is different about one machine: its name, addresses, labels. Written as a patch on its role's configuration.
// Cards are found by the MAC they were made with, because their names differ between platforms.
import type { ConfigContract } from "../contract/contracts.ts";
import { ownLabels, registeredTaints } from "../kubernetes/node-marks.ts";
import { type ConfigDocument, compact, typedDocument, unlessEmpty, type Value } from "./document.ts";

export interface NodeSettings {
  readonly hostname: string;
  readonly role: "controlplane" | "worker";
  readonly mac: string;
  /** "10.0.0.11/24"; those that a DHCP server gives are not among them. */
  readonly addresses: readonly string[];
  readonly asksDhcp: boolean;
  /** undefined: the DHCP server names it. */
  readonly gateway: string | undefined;
  /** Of control planes; before v1.12 there is one at most. */
  readonly vips: readonly string[];
  /** undefined: as the bridge has it. */
  readonly mtu: number | undefined;
  readonly nameservers: readonly string[];
  readonly searchDomains: readonly string[];
  readonly timeServers: readonly string[];
  /** Networks in which kubelet and etcd look for the machine's own address. */
  readonly nodeNetworks: readonly string[];
  /** By which the platform's controllers find the node's machine. */
  readonly providerId: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  readonly taints: Readonly<Record<string, string>>;
}

/** The name under which the machine's card is known in its documents. */
const LINK = "net0";

export function nodeDocuments(contract: ConfigContract, node: NodeSettings): readonly ConfigDocument[] {
  const isNetworkDocument = contract.hostname === "document";
  const isKubernetesDocument = contract.kubernetes === "document";
  const documents = [
    v1alpha1Part(node, { network: !isNetworkDocument, kubernetes: !isKubernetesDocument }),
    ...(isNetworkDocument ? networkDocuments(node) : []),
    ...(isKubernetesDocument ? kubernetesDocuments(node) : []),
  ];
  return documents.filter((document) => Object.keys(document).length > 0);
}

function v1alpha1Part(node: NodeSettings, has: { network: boolean; kubernetes: boolean }): ConfigDocument {
  const machine = compact({
    kubelet: has.kubernetes
      ? compact({
          extraArgs: kubeletArgs(node),
          extraConfig: registeredTaints(node),
          nodeIP: { validSubnets: node.nodeNetworks },
        })
      : undefined,
    network: has.network ? networkSection(node) : undefined,
    time: has.network ? timeSection(node) : undefined,
    nodeLabels: has.kubernetes ? unlessEmpty(ownLabels(node)) : undefined,
    nodeTaints: has.kubernetes && node.role === "controlplane" ? unlessEmpty(node.taints) : undefined,
  });
  return compact({
    machine: unlessEmpty(machine),
    cluster: node.role === "controlplane" ? { etcd: { advertisedSubnets: node.nodeNetworks } } : undefined,
  });
}

function networkSection(node: NodeSettings): ConfigDocument {
  return compact({
    hostname: node.hostname,
    interfaces: [
      compact({
        deviceSelector: { hardwareAddr: node.mac.toLowerCase() },
        addresses: unlessEmpty(node.addresses),
        routes:
          node.gateway === undefined
            ? undefined
            : [{ network: node.gateway.includes(":") ? "::/0" : "0.0.0.0/0", gateway: node.gateway }],
        mtu: node.mtu,
        dhcp: node.asksDhcp,
        vip: node.role === "controlplane" && node.vips[0] !== undefined ? { ip: node.vips[0] } : undefined,
      }),
    ],
    nameservers: unlessEmpty(node.nameservers),
    searchDomains: unlessEmpty(node.searchDomains),
  });
}

function timeSection({ timeServers }: NodeSettings): ConfigDocument | undefined {
  return timeServers.length === 0 ? undefined : { servers: timeServers };
}

function networkDocuments(node: NodeSettings): readonly ConfigDocument[] {
  return [
    // Without "auto: off" the generated "auto: stable" stays, and both together are refused.
    typedDocument("HostnameConfig", { auto: "off", hostname: node.hostname }),
    typedDocument("LinkAliasConfig", {
      name: LINK,
      selector: { match: `mac(link.permanent_addr) == ${JSON.stringify(node.mac.toLowerCase())}` },
    }),
    typedDocument("LinkConfig", {
      name: LINK,
      up: true,
      mtu: node.mtu,
      addresses: unlessEmpty(node.addresses.map((address): Value => ({ address }))),
      routes: node.gateway === undefined ? undefined : [{ gateway: node.gateway }],
    }),
    ...(node.asksDhcp ? [typedDocument("DHCPv4Config", { name: LINK })] : []),
    ...(node.role === "controlplane"
      ? node.vips.map((vip) => typedDocument("Layer2VIPConfig", { name: vip, link: LINK }))
      : []),
    ...(node.nameservers.length === 0 && node.searchDomains.length === 0
      ? []
      : [
          typedDocument("ResolverConfig", {
            nameservers: unlessEmpty(node.nameservers.map((address): Value => ({ address }))),
            searchDomains: node.searchDomains.length === 0 ? undefined : { domains: node.searchDomains },
          }),
        ]),
    ...(node.timeServers.length === 0
      ? []
      : [typedDocument("TimeSyncConfig", { ntp: { servers: node.timeServers } })]),
  ];
}

function kubernetesDocuments(node: NodeSettings): readonly ConfigDocument[] {
  const [extraArgs, config] = [kubeletArgs(node), registeredTaints(node)];
  return [
    typedDocument("KubeNodeConfig", {
      nodeIP: { validSubnets: node.nodeNetworks },
      labels: unlessEmpty(ownLabels(node)),
      taints: node.role === "controlplane" ? unlessEmpty(node.taints) : undefined,
    }),
    ...(extraArgs === undefined && config === undefined
      ? []
      : [typedDocument("KubeletConfig", { extraArgs, config })]),
  ];
}

const kubeletArgs = ({ providerId }: NodeSettings): ConfigDocument | undefined =>
  providerId === undefined ? undefined : { "provider-id": providerId };
