// The load balancer's machine of a cluster: known before it is made, as its other machines are.
import { machineMac, machineUuid } from "../machine/identity.ts";
import type { ClusterFile } from "./cluster-schema.ts";
import type { Machine } from "./machine.ts";

/** Beside the cluster's own tag; whatever has it is never a machine of Talos. */
export const BALANCER_TAG = "talos-balancer";
/** As `gpvectl image build lb` names it. */
export const BALANCER_IMAGE = "lb.qcow2";
/** Where API servers listen, whatever port the load balancer has. */
export const API_PORT = 6443;

export interface Balancer {
  readonly name: string;
  readonly provider: string;
  readonly host: string;
  readonly vmid: number;
  readonly uuid: string;
  readonly mac: string;
  readonly addresses: readonly string[];
  readonly cores: number;
  readonly memoryMiB: number;
  readonly tags: readonly string[];
  /** Where it listens and who is behind it, as its image reads it. */
  readonly told: string;
}

type BalancedCluster = Pick<ClusterFile, "metadata" | "providers" | "endpoint" | "vmids" | "tags">;

/** undefined: the file wants none of ours. */
export function balancerOf(
  { metadata, providers, endpoint, vmids, tags }: BalancedCluster,
  machines: readonly Pick<Machine, "role" | "addresses">[],
): Balancer | undefined {
  const { loadBalancer, port } = endpoint;
  if (loadBalancer?.backendsManaged !== "vm") return undefined;
  const { host, vmid, cores, memoryMiB } = loadBalancer.vm;
  const provider = providers.find(({ nodes }) => host === undefined || nodes.includes(host));
  const name = `${metadata.name}-lb`;
  const behind = machines
    .filter(({ role }) => role === "controlplane")
    .map(({ addresses: [address = ""] }) => `${bracketed(address)}:${API_PORT}`);
  return {
    name,
    provider: provider?.name ?? "",
    host: host ?? provider?.nodes[0] ?? "",
    vmid: vmid ?? Number(vmids.template.split("-")[1]),
    uuid: balancerUuid(metadata.name),
    mac: machineMac(metadata.name, name, 0),
    addresses: [loadBalancer.address],
    cores,
    memoryMiB,
    tags: [...new Set([`talos-${metadata.name}`, BALANCER_TAG, ...tags])],
    told: ["gpve-lb", port, ...behind].join(" "),
  };
}

/** Apart from those of machines, whatever somebody calls a pool. */
export const balancerUuid = (cluster: string): string => machineUuid(cluster, "balancer/lb");

export const bracketed = (address: string): string => (address.includes(":") ? `[${address}]` : address);

/** The platform's own key; platforms take 512 characters. */
export function balancerSmbios({ uuid, told }: Pick<Balancer, "uuid" | "told">): string {
  return `uuid=${uuid},base64=1,serial=${Buffer.from(told, "utf8").toString("base64")}`;
}

/** What a guest was told when it was made. */
export function toldOf(smbios: string | undefined): string | undefined {
  const [, serial] = /(?:^|,)serial=([A-Za-z0-9+/=]+)/.exec(smbios ?? "") ?? [];
  return serial === undefined ? undefined : Buffer.from(serial, "base64").toString("utf8");
}
