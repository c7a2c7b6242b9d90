// The load balancer's machine in the platform's own keys.
import { BALANCER_IMAGE, type Balancer, balancerSmbios, toldOf } from "../cluster/balancer.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { prefixLength } from "../cluster/networks.ts";
import type { GuestConfig } from "../driver/driver.ts";
import { compareGuest } from "./compare-guest.ts";
import { SYSTEM_DISK } from "./guest-config.ts";
import type { Change } from "./plan-steps.ts";

function balancerSettings({ network }: Cluster, balancer: Balancer): GuestConfig {
  const [address = ""] = balancer.addresses;
  const six = address.includes(":") ? "6" : "";
  const cidr = [network.nodeCIDR, network.nodeCIDR6 ?? ""].find(
    (each) => each.includes(":") === (six !== ""),
  );
  const hasGateway = network.gateway.includes(":") === (six !== "");
  const card = [`virtio=${balancer.mac}`, `bridge=${network.bridge}`];
  if (network.vlan !== null) card.push(`tag=${network.vlan}`);
  if (typeof network.mtu === "number") card.push(`mtu=${network.mtu}`);
  return {
    name: balancer.name,
    cores: String(balancer.cores),
    memory: String(balancer.memoryMiB),
    balloon: "0",
    scsihw: "virtio-scsi-pci",
    agent: "1",
    net0: card.join(","),
    ipconfig0: `ip${six}=${address}/${prefixLength(cidr ?? network.nodeCIDR)}${hasGateway ? `,gw${six}=${network.gateway}` : ""}`,
    smbios1: balancerSmbios(balancer),
    tags: balancer.tags.toSorted((a, b) => (a < b ? -1 : 1)).join(";"),
  };
}

/** The image must be in the storage. Not q35: its image knows the IDE drive of the other one alone. */
export function newBalancer(cluster: Cluster, balancer: Balancer): GuestConfig {
  const provider = cluster.providers.find(({ name }) => name === balancer.provider);
  const { image = "", vm = "", cloudinit = "" } = provider?.storage ?? {};
  const pool = provider?.pool ?? null;
  return {
    ...balancerSettings(cluster, balancer),
    ostype: "l26",
    [SYSTEM_DISK]: `${vm}:0,import-from=${balancerVolume(image)},discard=on`,
    ide2: `${cloudinit}:cloudinit`,
    serial0: "socket",
    boot: `order=${SYSTEM_DISK}`,
    onboot: "1",
    description: `Load balancer before the Kubernetes API of ${cluster.metadata.name}.`,
    ...(pool === null ? {} : { pool }),
  };
}

export function balancerChanges(
  cluster: Cluster,
  balancer: Balancer,
  actual: GuestConfig,
): readonly Change[] {
  const { smbios1: to = "", ...settings } = balancerSettings(cluster, balancer);
  const from = actual["smbios1"] ?? null;
  return [
    ...compareGuest(settings, actual),
    ...(toldOf(from ?? "") === balancer.told ? [] : [{ key: "smbios1", from, to }]),
  ];
}

export const balancerVolume = (storage: string): string => `${storage}:import/${BALANCER_IMAGE}`;
