// What the QEMU command line depends on, found on this host. Looked at again only when the node's facts change.
import { accessSync, constants, existsSync, readdirSync, statSync } from "node:fs";
import { firmwareTable, type HostFacts } from "@gpve/domain/vm/argv/host-facts.ts";
import { featuresOf } from "@gpve/domain/vm/argv/qemu-features.ts";
import type { NodeFacts } from "@gpve/domain/node/runtime.ts";

const FIRMWARE_FOLDER = "/usr/share/OVMF";
const BOOT_ROMS = ["/usr/lib/ipxe/qemu/efi-virtio.rom", "/usr/share/qemu/efi-virtio.rom"];

export function qemuHostFacts(node: string, facts: NodeFacts): HostFacts {
  const qemuVersion = facts.qemu?.version ?? "0";
  return {
    nodeName: node,
    arch: facts.kernel.machine === "aarch64" ? "aarch64" : "x86_64",
    cpuVendor: facts.cpu.vendor,
    cpuFlags: new Set(facts.cpu.flags.split(" ")),
    cpus: facts.cpu.cpus,
    qemuVersion,
    features: featuresOf(qemuVersion),
    kvmUsable: facts.accelerator === "kvm",
    vhostNet: mayOpen("/dev/vhost-net"),
    // Under the guests' seccomp filter io_uring cannot be relied upon; threads do the same work.
    ioUring: false,
    netBootRoms: BOOT_ROMS.some((path) => existsSync(path)),
    hugepageSizesMiB: hugepageSizes(),
    numaNodes: numaNodes(),
    bridgeMtu: {},
    firmware: firmwareTable(FIRMWARE_FOLDER, sizeOf),
    hwCapabilities: {},
    pciDevices: listOr("/sys/bus/pci/devices", []),
    pciMappings: {},
    usbMappings: {},
    directoryMappings: new Set(),
    customCpuModels: {},
    characterDevices: new Set(
      listOr("/dev", [])
        .filter((name) => /^(?:tty|parport)/.test(name))
        .map((name) => `/dev/${name}`),
    ),
    renderNode: listOr("/dev/dri", []).some((name) => name.startsWith("renderD")),
  };
}

function mayOpen(path: string): boolean {
  try {
    accessSync(path, constants.R_OK | constants.W_OK);
    return true;
  } catch {
    return false; // not there, or not ours
  }
}

function hugepageSizes(): number[] {
  const sizes = listOr("/sys/kernel/mm/hugepages", []).map(
    (name) => Number(/hugepages-(\d+)kB/.exec(name)?.[1] ?? 0) / 1024,
  );
  return sizes.filter((size) => size >= 1);
}

function numaNodes(): number[] {
  const nodes = listOr("/sys/devices/system/node", []).flatMap((name) => /^node(\d+)$/.exec(name)?.[1] ?? []);
  return nodes.length === 0 ? [0] : nodes.map(Number);
}

function sizeOf(file: string): number | undefined {
  const path = `${FIRMWARE_FOLDER}/${file}`;
  return existsSync(path) ? statSync(path).size : undefined;
}

function listOr(folder: string, otherwise: string[]): string[] {
  return existsSync(folder) ? readdirSync(folder) : otherwise;
}
