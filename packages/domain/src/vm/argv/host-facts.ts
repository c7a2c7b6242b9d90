// What the command line depends on besides the configuration: the host's QEMU, CPU, firmware and devices. Found by
// the agent, passed in as data, so that the command line stays a pure function.
import type { QemuFeature } from "./machine/qemu-features.ts";

export type GuestArch = "x86_64" | "aarch64";

export interface HostFacts {
  readonly nodeName: string;
  readonly arch: GuestArch;
  /** `GenuineIntel`, `AuthenticAMD`, … */
  readonly cpuVendor: string;
  /** As in /proc/cpuinfo. */
  readonly cpuFlags: ReadonlySet<string>;
  readonly cpus: number;
  /** Physical address bits of the CPU. */
  readonly physBits?: number;
  readonly qemuVersion: string;
  readonly features: ReadonlySet<QemuFeature>;
  /** Machine types QEMU lists; newer QEMU drops old ones. Not checked when it is not known. */
  readonly machineTypes?: ReadonlySet<string>;
  /** KVM runs guests here: found by running one, not by looking for /dev/kvm. */
  readonly kvmUsable: boolean;
  /** QEMUs for guests of other architectures, where they are installed. */
  readonly foreignQemus?: Readonly<Partial<Record<GuestArch, ForeignQemu>>>;
  readonly vhostNet: boolean;
  readonly ioUring: boolean;
  /** The network boot code QEMU loads into NICs is installed. */
  readonly netBootRoms: boolean;
  /** QEMU has SPICE, and the node gives it a port. */
  readonly spice?: SpiceFacts;
  readonly hugepageSizesMiB: readonly number[];
  readonly numaNodes: readonly number[];
  readonly bridgeMtu: Readonly<Record<string, number>>;
  /** Key: `<arch>/<kind>`, see firmwareTable. */
  readonly firmware: Readonly<Record<string, FirmwareImage>>;
  readonly hwCapabilities: HwCapabilities;
  /** Addresses with domain: `0000:01:00.0`. */
  readonly pciDevices: readonly string[];
  /** Devices that other guests hold. */
  readonly pciInUse?: ReadonlySet<string>;
  readonly pciMappings: Readonly<Record<string, PciMapping>>;
  readonly usbMappings: Readonly<Record<string, readonly UsbMappingEntry[]>>;
  /** Directory mappings that exist on this node. */
  readonly directoryMappings: ReadonlySet<string>;
  readonly customCpuModels: Readonly<Record<string, CustomCpuModel>>;
  readonly iscsiInitiator?: string;
  /** Serial and parallel devices that may be passed through. */
  readonly characterDevices: ReadonlySet<string>;
  /** The host can render for virtio-gl. */
  readonly renderNode: boolean;
}

export interface ForeignQemu {
  readonly binary: string;
  readonly version: string;
  readonly machineTypes: ReadonlySet<string>;
  /** It has SPICE. */
  readonly spice: boolean;
}

export interface SpiceFacts {
  readonly address: string;
  readonly tlsPort: number;
}

export interface FirmwareImage {
  readonly code: string;
  readonly vars?: string;
  readonly varsBytes?: number;
}

export interface HwCapabilities {
  readonly "amd-sev"?: {
    readonly cbitpos: number;
    readonly "reduced-phys-bits": number;
    readonly "sev-support": boolean;
    readonly "sev-support-es": boolean;
    readonly "sev-support-snp": boolean;
  };
  readonly "intel-tdx"?: { readonly "tdx-support": boolean };
}

export interface PciMapping {
  /** Alternatives; functions of one device joined by `;`. */
  readonly paths: readonly string[];
  readonly mdev?: boolean;
  readonly liveMigrationCapable?: boolean;
}

export interface UsbMappingEntry {
  readonly id: string;
  readonly path?: string;
}

/** A CPU model of the cluster, without its `custom-` prefix. */
export interface CustomCpuModel {
  readonly "reported-model"?: string;
  readonly flags?: string;
  readonly hidden?: boolean;
  readonly "hv-vendor-id"?: string;
  readonly "phys-bits"?: string;
  readonly "guest-phys-bits"?: number;
  readonly level?: number;
}

const FIRMWARE_FILES: Readonly<Record<string, readonly [string] | readonly [string, string]>> = {
  "x86_64/default": ["OVMF_CODE.fd", "OVMF_VARS.fd"],
  "x86_64/4m-no-smm": ["OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"],
  "x86_64/4m-no-smm-ms": ["OVMF_CODE_4M.fd", "OVMF_VARS_4M.ms.fd"],
  "x86_64/4m": ["OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.fd"],
  "x86_64/4m-ms": ["OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.ms.fd"],
  "x86_64/4m-sev": ["OVMF_SEV_CODE_4M.fd", "OVMF_SEV_VARS_4M.fd"],
  "x86_64/4m-snp": ["OVMF_SEV_4M.fd"],
  "x86_64/4m-tdx": ["OVMF_TDX_4M.ms.fd"],
  "aarch64/default": ["AAVMF_CODE.fd", "AAVMF_VARS.fd"],
  "aarch64/ms": ["AAVMF_CODE.secboot.fd", "AAVMF_VARS.ms.fd"],
};

/** The firmware found in a folder; `bytesOf` gives a file's size, or undefined when it is not there. */
export function firmwareTable(
  folder: string,
  bytesOf: (file: string) => number | undefined,
): Record<string, FirmwareImage> {
  const table: Record<string, FirmwareImage> = {};
  for (const [kind, [code, vars]] of Object.entries(FIRMWARE_FILES)) {
    if (bytesOf(code) === undefined) continue;
    if (vars === undefined) {
      table[kind] = { code: `${folder}/${code}` };
      continue;
    }
    const varsBytes = bytesOf(vars);
    if (varsBytes !== undefined)
      table[kind] = { code: `${folder}/${code}`, vars: `${folder}/${vars}`, varsBytes };
  }
  return table;
}
