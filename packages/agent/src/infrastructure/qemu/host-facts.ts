// Everything the command line of a guest depends on besides its configuration, found by looking and trying.
import { closeSync, openSync, statSync, writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import { featuresOf } from "@gpve/domain/vm/argv/machine/qemu-features.ts";
import {
  firmwareTable,
  type ForeignQemu,
  type GuestArch,
  type HostFacts,
} from "@gpve/domain/vm/argv/host-facts.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type Exec, exec as systemExec } from "@gpve/kit/exec.ts";
import type { HostFiles } from "../facts/host-files.ts";
import { parseCpuInfo } from "../facts/proc-cpuinfo.ts";
import { bridgeMtus } from "../net/kernel-links.ts";
import type { QemuKnowledge } from "./qemu-probe.ts";

export interface HostFactsDeps {
  readonly node: string;
  readonly files: HostFiles;
  readonly exec?: Exec;
  readonly qemu: QemuKnowledge;
  /** By architecture, other than the host's. */
  readonly foreign?: Readonly<Partial<Record<GuestArch, QemuKnowledge>>>;
  /** From the facts of the node: a guest really ran under it. */
  readonly kvmUsable: boolean;
  /** For files that are tried on; DIR/agent. */
  readonly folder: string;
  /** Tries that touch devices; tests replace them. */
  readonly tries?: HostTries;
}

export interface HostTries {
  readonly vhostNet: () => boolean;
  readonly ioUring: () => Promise<boolean>;
}

/** What the cluster knows rather than the host: mappings and CPU models. */
export type ClusterFacts = Pick<
  HostFacts,
  "pciMappings" | "usbMappings" | "directoryMappings" | "customCpuModels"
>;

export const NO_CLUSTER_FACTS: ClusterFacts = {
  pciMappings: {},
  usbMappings: {},
  directoryMappings: new Set(),
  customCpuModels: {},
};

const ROM_FOLDERS = ["/usr/share/qemu", "/usr/lib/ipxe/qemu", "/usr/share/qemu-efi", "/usr/share/ipxe"];
const FIRMWARE_FOLDERS: Readonly<Record<GuestArch, string>> = {
  x86_64: "/usr/share/OVMF",
  aarch64: "/usr/share/AAVMF",
};

export const HOST_ARCH: GuestArch = process.arch === "arm64" ? "aarch64" : "x86_64";

export async function readHostFacts(
  deps: HostFactsDeps,
  cluster: ClusterFacts = NO_CLUSTER_FACTS,
): Promise<HostFacts> {
  const { files, qemu, exec = systemExec } = deps;
  const tries = deps.tries ?? hostTries(deps.folder, exec);
  const cpuText = (await files.read("/proc/cpuinfo")) ?? "";
  const cpu = parseCpuInfo(cpuText);
  const physBits = /^address sizes\s*:\s*(\d+) bits physical/m.exec(cpuText)?.[1];
  const arch = HOST_ARCH;
  const firmware = Object.assign(
    {},
    ...Object.values(FIRMWARE_FOLDERS).map((folder) =>
      firmwareTable(folder, (file) => sizeOf(`${folder}/${file}`)),
    ),
  ) as HostFacts["firmware"];
  const initiator = /^InitiatorName=(\S+)/m.exec(
    (await files.read("/etc/iscsi/initiatorname.iscsi")) ?? "",
  )?.[1];
  const devices = await files.list("/dev");
  const numbered = async (folder: string, pattern: RegExp): Promise<number[]> =>
    (await files.list(folder)).flatMap((name) => {
      const match = pattern.exec(name);
      return match === null ? [] : [Number(match[1])];
    });
  return {
    ...cluster,
    nodeName: deps.node,
    arch,
    cpuVendor: cpu.vendor,
    cpuFlags: new Set(cpu.flags.split(" ").filter((flag) => flag !== "")),
    cpus: cpu.cpus,
    ...(physBits === undefined ? {} : { physBits: Number(physBits) }),
    qemuVersion: qemu.version,
    features: featuresOf(qemu.version),
    ...(qemu.machines.length === 0 ? {} : { machineTypes: machineNames(qemu) }),
    ...(deps.foreign === undefined ? {} : { foreignQemus: foreignQemus(deps.foreign) }),
    kvmUsable: deps.kvmUsable,
    vhostNet: tries.vhostNet(),
    ioUring: await tries.ioUring(),
    // Where QEMU is told no port, these two are not used.
    ...(hasSpice(qemu) ? { spice: { address: "127.0.0.1", tlsPort: 61_000 } } : {}),
    netBootRoms: await hasNetBootRoms(files),
    hugepageSizesMiB: (await numbered("/sys/kernel/mm/hugepages", /^hugepages-(\d+)kB$/)).map(
      (kib) => kib / 1024,
    ),
    numaNodes: await numbered("/sys/devices/system/node", /^node(\d+)$/),
    bridgeMtu: await bridgeMtus(files),
    firmware,
    hwCapabilities: {},
    pciDevices: await files.list("/sys/bus/pci/devices"),
    characterDevices: new Set(
      devices.filter((name) => /^(ttyS|ttyUSB|ttyACM|parport)\d+$/.test(name)).map((name) => `/dev/${name}`),
    ),
    renderNode: (await files.list("/dev/dri")).some((name) => name.startsWith("renderD")),
    ...given({ iscsiInitiator: initiator }),
  };
}

function hasSpice({ devices, commands }: QemuKnowledge): boolean {
  return devices.has("qxl-vga") && commands.has("query-spice");
}

function foreignQemus(found: NonNullable<HostFactsDeps["foreign"]>): NonNullable<HostFacts["foreignQemus"]> {
  return Object.fromEntries(
    Object.entries(found).map(([arch, qemu]) => [
      arch,
      {
        binary: qemu.binary,
        version: qemu.version,
        machineTypes: machineNames(qemu),
        spice: hasSpice(qemu),
      } satisfies ForeignQemu,
    ]),
  );
}

function machineNames({ machines }: QemuKnowledge): ReadonlySet<string> {
  return new Set(machines.flatMap(({ name, alias }) => (alias === undefined ? [name] : [name, alias])));
}

/** QEMU's NICs load these at start and refuse to exist without. */
async function hasNetBootRoms(files: HostFiles): Promise<boolean> {
  const names = (await Promise.all(ROM_FOLDERS.map((folder) => files.list(folder)))).flat();
  return names.includes("efi-virtio.rom") && names.includes("efi-e1000.rom");
}

/** Opening /dev/vhost-net loads its module where there is one; an I/O by qemu-img shows whether io_uring works. */
export function hostTries(folder: string, exec: Exec): HostTries {
  return {
    vhostNet: () => {
      try {
        closeSync(openSync("/dev/vhost-net", "r+"));
        return true;
      } catch (err) {
        ignore(err, "this kernel has none");
        return false;
      }
    },
    ioUring: async () => {
      const file = join(folder, `io-uring-try-${process.pid}`);
      try {
        writeFileSync(file, Buffer.alloc(65_536));
        await exec("qemu-img", ["bench", "-c", "1", "-d", "1", "-i", "io_uring", "-f", "raw", file]);
        return true;
      } catch (err) {
        ignore(err, "the kernel, its settings or this QEMU forbid it");
        return false;
      } finally {
        await rm(file, { force: true });
      }
    },
  };
}

function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}
