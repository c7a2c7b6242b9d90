// A host for tests: newest QEMU, every firmware, everything works. Override what a test is about.
import type { VmValues } from "../../config/vm-config.ts";
import type { CommandInput, CommandOptions, QemuCommand, VolumeLookup } from "../command-input.ts";
import { firmwareTable, type HostFacts } from "../host-facts.ts";
import { qemuCommand } from "../qemu-command.ts";
import { featuresOf } from "../machine/qemu-features.ts";

export function sampleHost(overrides: Partial<HostFacts> = {}): HostFacts {
  const qemuVersion = overrides.qemuVersion ?? "11.0.0";
  return {
    nodeName: "node1",
    arch: "x86_64",
    cpuVendor: "GenuineIntel",
    cpuFlags: new Set(["vmx"]),
    cpus: 64,
    physBits: 46,
    qemuVersion,
    features: featuresOf(qemuVersion),
    kvmUsable: true,
    vhostNet: true,
    ioUring: true,
    netBootRoms: true,
    spice: { address: "127.0.0.1", tlsPort: 61000 },
    hugepageSizesMiB: [2, 1024],
    numaNodes: [0, 1, 2, 3],
    bridgeMtu: { vmbr0: 1500, small: 1400 },
    firmware: firmwareTable("/fw", (file) => (file.includes("VARS") ? 131072 : 4)),
    hwCapabilities: {},
    pciDevices: ["0000:00:02.0", "0000:01:00.0", "0000:01:00.1", "0000:02:00.0", "0000:03:00.0"],
    pciMappings: {},
    usbMappings: {},
    directoryMappings: new Set(["share"]),
    customCpuModels: {},
    characterDevices: new Set(["/dev/ttyS0", "/dev/parport0", "/dev/usb/lp0"]),
    renderNode: true,
    ...overrides,
  };
}

/** `store:name.qcow2` is a file; `lvm:` and `btrfs:` volumes say their storage's type. */
export const sampleVolumes: VolumeLookup = (file) => {
  if (file.startsWith("/dev/"))
    return { node: { driver: "host_device", filename: file }, format: "raw", contentType: "other" };
  if (file.startsWith("/"))
    return { node: { driver: "file", filename: file }, format: "raw", contentType: "other" };
  const [id = "", name = ""] = file.split(":");
  const iso = name.startsWith("iso/");
  return {
    node: { driver: "file", filename: `/${id}/${name}` },
    format: /\.(qcow2|vmdk)$/.exec(name)?.[1] ?? "raw",
    contentType: iso ? "iso" : "images",
    storage: { id, type: id === "store" ? "dir" : id, content: id === "isos" ? ["iso"] : ["images", "iso"] },
  };
};

export function samplePaths(folder: string, binary = "/usr/bin/qemu-system-x86_64"): CommandInput["paths"] {
  return {
    binary,
    qmp: `${folder}/qmp`,
    qmpEvents: `${folder}/qmp-event`,
    qmpDescriptors: `${folder}/qmp-fd`,
    agent: `${folder}/agent`,
    vnc: `${folder}/vnc`,
    spice: `${folder}/spice`,
    swtpm: `${folder}/swtpm`,
    efiVars: `${folder}/efivars.fd`,
    serial: (index) => `${folder}/serial${index}`,
    virtiofs: (index) => `${folder}/virtiofs${index}`,
    sharedMemory: (name) => `${folder}/shm-${name}`,
    hugepages: (sizeMiB) => `${folder}/huge${sizeMiB}`,
  };
}

/** No hash at all, but stable and of the right length. */
export const fakeHash = (text: string) =>
  Array.from(text)
    .reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) % 0xffff_fffb, 7)
    .toString(16)
    .padStart(64, "0")
    .split("")
    .toReversed()
    .join("");

export function sampleInput(
  config: VmValues,
  host: Partial<HostFacts> = {},
  options: CommandOptions = {},
): CommandInput {
  return {
    vmid: 100,
    config,
    host: sampleHost(host),
    volumes: sampleVolumes,
    sha256Hex: fakeHash,
    paths: samplePaths("/run/vm100"),
    options,
  };
}

export function sampleCommand(
  config: VmValues,
  host: Partial<HostFacts> = {},
  options: CommandOptions = {},
): QemuCommand & {
  readonly text: string;
  all: (option: string) => string[];
  one: (option: string) => string;
} {
  const command = qemuCommand(sampleInput(config, host, options));
  const all = (option: string) =>
    command.argv.flatMap((word, index) => (word === option ? [command.argv[index + 1] ?? ""] : []));
  return { ...command, text: command.argv.join(" "), all, one: (option) => all(option)[0] ?? "" };
}
