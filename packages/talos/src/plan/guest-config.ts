// A machine in the platform's own keys. Static addresses come by the cloud-init drive, so that a machine is where it is
// expected before it has any configuration.
import { given } from "@gpve/contracts/given.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Machine } from "../cluster/machine.ts";
import { isAsked } from "../cluster/machine-addresses.ts";
import { prefixLength } from "../cluster/networks.ts";
import type { GuestConfig } from "../driver/driver.ts";
import { imageFile, imageVolume } from "../image/image-file.ts";

/** The disk Talos runs from. */
export const SYSTEM_DISK = "scsi0";
/** As Talos sees it; read before anything is installed to it. */
export const SYSTEM_DEVICE = "/dev/sda";
/** Nothing lies in it. */
export const EMPTY_DRIVE = "none,media=cdrom";
export const AGENT_EXTENSION = "siderolabs/qemu-guest-agent";

/** What can be compared with an existing guest. */
export function guestSettings(cluster: Cluster, machine: Machine): GuestConfig {
  const { network, image } = cluster;
  const { size } = machine;
  const hasAgent = [...image.extensions, ...machine.extensions].includes(AGENT_EXTENSION);
  const card = [`virtio=${machine.mac}`, `bridge=${network.bridge}`];
  if (network.vlan !== null) card.push(`tag=${network.vlan}`);
  if (typeof network.mtu === "number") card.push(`mtu=${network.mtu}`);
  return {
    name: machine.hostname,
    cores: String(size.cores),
    memory: String(size.memoryMiB),
    // Talos takes memory that balloons away for memory that it does not have.
    balloon: "0",
    cpu: size.cpu,
    scsihw: size.scsihw,
    agent: hasAgent ? "1" : "0",
    net0: card.join(","),
    ipconfig0: addressSettings(cluster, machine),
    ...(network.dns.length === 0 ? {} : { nameserver: network.dns.join(" ") }),
    ...(network.search.length === 0 ? {} : { searchdomain: network.search.join(" ") }),
    protection: size.protection ? "1" : "0",
    smbios1: `uuid=${machine.uuid}`,
    tags: machine.tags.toSorted((a, b) => (a < b ? -1 : 1)).join(";"),
  };
}

/** Everything a new guest gets. The image must be in the storage. */
export function newGuest(cluster: Cluster, machine: Machine): GuestConfig {
  const provider = cluster.providers.find(({ name }) => name === machine.provider);
  const storage = provider?.storage ?? { image: "", vm: "", efi: "", cloudinit: "" };
  const pool = provider?.pool ?? null;
  const { size } = machine;
  const isEfi = size.bios === "ovmf";
  const volume = imageVolume(storage.image, imageFile(cluster, machine.arch, machine.extensions));
  const isIso = cluster.image.boot === "iso";
  const iso = isoDrive(machine);
  const { protection, ...settings } = guestSettings(cluster, machine);
  return {
    ...settings,
    ...(size.protection ? given({ protection }) : {}),
    ostype: "l26",
    machine: "q35",
    bios: size.bios,
    // Keys that are there already would keep Talos from enrolling its own.
    ...(isEfi ? { efidisk0: `${storage.efi}:1,efitype=4m,pre-enrolled-keys=0` } : {}),
    ...(cluster.talos.diskEncryption === "tpm" ? { tpmstate0: `${storage.efi}:1,version=v2.0` } : {}),
    [SYSTEM_DISK]: isIso
      ? `${storage.vm}:${size.diskGiB},discard=on`
      : `${storage.vm}:0,import-from=${volume},discard=on`,
    ...(isIso ? { [iso]: `${volume},media=cdrom` } : {}),
    ...guestDevices(machine),
    [cloudInitDrive(machine)]: `${storage.cloudinit}:cloudinit`,
    serial0: "socket",
    // The disk first: an ISO before it would install for ever.
    boot: isIso ? `order=${SYSTEM_DISK};${iso}` : `order=${SYSTEM_DISK}`,
    onboot: "1",
    ...(machine.arch === "arm64" ? { arch: "aarch64" } : {}),
    ...(pool === null ? {} : { pool }),
  };
}

/** Disks beside the system's, and devices of the node. */
export function guestDevices({ size }: Pick<Machine, "size">): GuestConfig {
  return {
    ...Object.fromEntries(
      size.extraDisks.map((disk, at) => [`scsi${at + 1}`, `${disk.storage}:${disk.gib},discard=on`]),
    ),
    ...Object.fromEntries(size.pci.map(({ mapping }, at) => [`hostpci${at}`, `mapping=${mapping},pcie=1`])),
  };
}

/** Machines of arm64 have no IDE. */
export const cloudInitDrive = ({ arch, size }: Pick<Machine, "arch" | "size">): string =>
  arch === "arm64" ? "scsi30" : size.cloudInitDrive;

/** Where an ISO lies until Talos is on the disk; machines of arm64 have no IDE. */
export function isoDrive({ arch, size }: Pick<Machine, "arch" | "size">): string {
  return arch === "arm64" || size.cloudInitDrive === "scsi30" ? "scsi29" : "ide0";
}

function addressSettings({ network }: Cluster, { addresses }: Machine): string {
  const networks = [network.nodeCIDR, ...(network.nodeCIDR6 === null ? [] : [network.nodeCIDR6])];
  return addresses
    .flatMap((address, at) => {
      const six = address.includes(":") ? "6" : "";
      if (isAsked(network, address)) return ["ip=dhcp"];
      const isGateways = network.gateway.includes(":") === address.includes(":");
      const own = `ip${six}=${address}/${prefixLength(networks[at] ?? network.nodeCIDR)}`;
      return isGateways ? [own, `gw${six}=${network.gateway}`] : [own];
    })
    .join(",");
}
