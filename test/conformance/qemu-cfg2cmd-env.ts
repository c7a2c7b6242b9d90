// The host that PVE's command-line cases assume, read from the suite's own description of it.
import { refused } from "@gpve/domain/request/failures.ts";
import { createHash } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";
import type {
  CommandInput,
  ProtocolNode,
  ResolvedVolume,
  VolumeLookup,
} from "@gpve/domain/vm/argv/command-input.ts";
import { firmwareTable, type HostFacts } from "@gpve/domain/vm/argv/host-facts.ts";
import { featuresOf } from "@gpve/domain/vm/argv/machine/qemu-features.ts";

export interface SuiteEnvironment {
  readonly vmid: number;
  readonly nodename: string;
  readonly default_host_arch: "x86_64" | "aarch64";
  readonly default_cpu_vendor: string;
  readonly qemu_version: string;
  readonly vhost_net: boolean;
  readonly iscsi_initiator: string;
  readonly host_phys_bits: number;
  readonly spice_port: number;
  readonly cdrom_path: string;
  readonly bridge_mtu: Readonly<Record<string, number>>;
  readonly ovmf_vars_sizes: Readonly<Record<string, number>>;
  readonly custom_cpu_models: HostFacts["customCpuModels"];
  readonly hw_capabilities: Readonly<Record<string, HostFacts["hwCapabilities"]>>;
  readonly pci_devices: readonly string[];
  readonly pci_mappings: Readonly<Record<string, SuitePciMapping>>;
  readonly storages: Readonly<Record<string, SuiteStorage>>;
}

interface SuitePciMapping {
  readonly paths: readonly string[];
  readonly mdev?: number;
  readonly "live-migration-capable"?: number;
}

interface SuiteStorage {
  readonly type: string;
  readonly path?: string;
  readonly content: readonly string[];
  readonly "snapshot-as-volume-chain"?: number;
  readonly krbd?: number;
  readonly nocow?: number;
  readonly monhost?: string;
  readonly fsid?: string;
  readonly pool?: string;
  readonly portal?: string;
  readonly target?: string;
  readonly lun?: number;
  readonly vgname?: string;
}

const FIRMWARE = "/usr/share/pve-edk2-firmware/";
const EVERY_NODE = Array.from({ length: 64 }, (_, index) => index);

/** Of the case, or the one all cases were made with. */
export function qemuVersionOf(env: SuiteEnvironment, header: ReadonlyMap<string, string>): string {
  return /^\d+(?:\.\d+)+/.exec(header.get("QEMU_VERSION") ?? env.qemu_version)?.[0] ?? "";
}

export function hostOf(env: SuiteEnvironment, header: ReadonlyMap<string, string>): HostFacts {
  const qemuVersion = qemuVersionOf(env, header);
  return {
    nodeName: env.nodename,
    arch: (header.get("HOST_ARCH") ?? env.default_host_arch) as HostFacts["arch"],
    cpuVendor: header.get("HOST_CPU_VENDOR") ?? env.default_cpu_vendor,
    cpuFlags: new Set([header.get("HOST_CPU_VENDOR") === "AuthenticAMD" ? "svm" : "vmx"]),
    cpus: 1024,
    physBits: env.host_phys_bits,
    qemuVersion,
    features: featuresOf(qemuVersion),
    kvmUsable: true,
    vhostNet: env.vhost_net,
    ioUring: true,
    netBootRoms: true,
    spice: { address: "127.0.0.1", tlsPort: env.spice_port },
    hugepageSizesMiB: [2, 1024],
    numaNodes: EVERY_NODE,
    bridgeMtu: env.bridge_mtu,
    firmware: firmwareTable(FIRMWARE, (file) => varsBytes(env, file)),
    hwCapabilities: env.hw_capabilities[header.get("HW_CAPABILITIES") ?? "default"] ?? {},
    pciDevices: env.pci_devices,
    pciMappings: Object.fromEntries(
      Object.entries(env.pci_mappings).map(([name, { paths, mdev, "live-migration-capable": live }]) => [
        name,
        { paths, mdev: mdev === 1, liveMigrationCapable: live === 1 },
      ]),
    ),
    usbMappings: {},
    directoryMappings: { has: () => true } as unknown as ReadonlySet<string>,
    customCpuModels: env.custom_cpu_models,
    iscsiInitiator: env.iscsi_initiator,
    characterDevices: { has: () => true } as unknown as ReadonlySet<string>,
    renderNode: true,
  };
}

export function pathsOf(vmid: number): CommandInput["paths"] {
  const run = `/var/run/qemu-server/${vmid}`;
  return {
    binary: "/usr/bin/kvm",
    qmp: `${run}.qmp`,
    qmpEvents: "/var/run/qmeventd.sock",
    qmpDescriptors: `${run}.qmp-fd`,
    agent: `${run}.qga`,
    vnc: `${run}.vnc`,
    spice: `${run}.spice`,
    swtpm: `${run}.swtpm`,
    efiVars: `/run/qemu-server/efidisk/${vmid}-ovmf.fd`,
    serial: (index) => `${run}.serial${index}`,
    virtiofs: (index) => `/run/qemu-server/virtiofsd/vm${vmid}-fs${index}`,
    sharedMemory: (name) => `/dev/shm/pve-shm-${name}`,
    hugepages: (sizeMiB) => `/run/hugepages/kvm/${sizeMiB * 1024}kB`,
  };
}

export const sha256Hex = (text: string) => createHash("sha256").update(text).digest("hex");

export function volumesOf(env: SuiteEnvironment): VolumeLookup {
  return (file, { drive }) => {
    if (file === "cdrom")
      return {
        node: { driver: "host_cdrom", filename: env.cdrom_path },
        format: "raw",
        contentType: "other",
      };
    if (file.startsWith("/")) {
      const disc = drive.media === "cdrom" ? "host_cdrom" : "host_device";
      const driver = file.startsWith("/dev/") ? disc : "file";
      return { node: { driver, filename: file }, format: "raw", contentType: "other" };
    }
    const colon = file.indexOf(":");
    const id = file.slice(0, colon);
    const storage = env.storages[id];
    if (storage === undefined) throw refused(`storage '${id}' does not exist`);
    return resolveVolume(id, storage, withoutBase(file.slice(colon + 1)));
  };
}

/** `100/base-100-disk-0.qcow2/101/vm-101-disk-0.qcow2` and `base-…/vm-…`: the base is no part of the path. */
function withoutBase(name: string): string {
  return name.replace(/^(?:\d+\/)?base-[^/]+\/(?=(?:\d+\/)?(?:vm|base)-)/, "");
}

function resolveVolume(id: string, storage: SuiteStorage, name: string): ResolvedVolume {
  const facts = {
    id,
    type: storage.type,
    content: storage.content,
    krbd: storage.krbd === 1,
    nocow: storage.nocow === 1,
    snapshotAsVolumeChain: storage["snapshot-as-volume-chain"] === 1,
  };
  const iso = name.startsWith("iso/");
  const format = /\.(raw|qcow2|vmdk)$/.exec(name)?.[1] ?? "raw";
  const shared = { storage: facts, contentType: iso ? "iso" : "images", format } as const;
  switch (storage.type) {
    case "rbd":
      return { ...shared, ...rbd(storage, name) };
    case "zfs":
      return { ...shared, ...iscsi(storage) };
    case "lvm":
    case "lvmthin":
      return {
        ...shared,
        ...chained(storage, format, (volume) => `/dev/${storage.vgname ?? ""}/${volume}`, name),
      };
    case "btrfs":
      return { ...shared, node: file(btrfsPath(storage, name)) };
    default:
      if (iso) return { ...shared, node: file(`${storage.path ?? ""}/template/${name}`) };
      return {
        ...shared,
        ...chained(storage, format, (volume) => `${storage.path ?? ""}/images/${volume}`, name),
      };
  }
}

/** current -> snap2 -> snap1, as the suite's host says for qcow2 images in chains. */
function chained(
  storage: SuiteStorage,
  format: string,
  pathOf: (volume: string) => string,
  name: string,
): Pick<ResolvedVolume, "node" | "chain"> {
  const block = storage.type === "lvm" || storage.type === "lvmthin";
  const nodeOf = (volume: string): ProtocolNode =>
    block ? { driver: "host_device", filename: pathOf(volume) } : file(pathOf(volume));
  const chain =
    format === "qcow2" && (storage["snapshot-as-volume-chain"] === 1 || storage.type === "lvm")
      ? ["snap2", "snap1"].map((snapshot) => ({
          snapshot,
          node: nodeOf(name.replace(/([^/]+)$/, `${snapshot}-$1`)),
        }))
      : undefined;
  return { node: nodeOf(name), ...given({ chain }) };
}

function rbd(storage: SuiteStorage, name: string): Pick<ResolvedVolume, "node" | "legacyPath"> {
  if (storage.krbd === 1) {
    return {
      node: {
        driver: "host_device",
        filename: `/dev/rbd-pve/${storage.fsid ?? ""}/${storage.pool ?? ""}/${name}`,
      },
    };
  }
  const hosts = (storage.monhost ?? "").split(",");
  const quoted = hosts.map((host) => (host.includes(":") ? `[${host.replaceAll(":", "\\:")}]` : host));
  return {
    node: {
      driver: "rbd",
      pool: storage.pool ?? "",
      image: name,
      "auth-client-required": ["none"],
      server: hosts.map((host) => ({ host, port: "3300" })),
    },
    legacyPath: `rbd:${storage.pool ?? ""}/${name}:mon_host=${quoted.join(";")}:auth_supported=none`,
  };
}

function iscsi(storage: SuiteStorage): Pick<ResolvedVolume, "node" | "legacyPath"> {
  const { portal = "", target = "", lun = 0 } = storage;
  return {
    node: { driver: "iscsi", transport: "tcp", portal, target, lun },
    legacyPath: `iscsi://${portal}/${target}/${lun}`,
  };
}

/** Raw images are files in subvolumes of their own. */
function btrfsPath(storage: SuiteStorage, name: string): string {
  const path = `${storage.path ?? ""}/images/${name}`;
  return path.endsWith(".raw") ? `${path.slice(0, -".raw".length)}/disk.raw` : path;
}

function file(filename: string): ProtocolNode {
  return { driver: "file", filename };
}

function varsBytes(env: SuiteEnvironment, name: string): number {
  for (const [pattern, bytes] of Object.entries(env.ovmf_vars_sizes)) {
    const regex = new RegExp(`^${pattern.replaceAll("*", ".*")}$`);
    if (regex.test(name)) return bytes;
  }
  return 0;
}
