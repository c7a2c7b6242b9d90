// Input of the command line: configuration, host, volumes, paths and what this start is for.
import type { MonitorPaths } from "./machine/monitors.ts";
import type { VmValues } from "../config/vm-config.ts";
import type { Drive } from "../config/property-types.ts";
import type { HostFacts } from "./host-facts.ts";
import type { BlockNode } from "../../storage/block-node.ts";

/**
 * `stock`: what runs on our hosts, for any QEMU from 7.2 on. `pve`: the exact line PVE would run on its patched QEMU;
 * it exists to compare with PVE's own expectations, and to tell a user what a PVE node would do.
 */
export type Dialect = "stock" | "pve";

export interface CommandInput {
  readonly vmid: number;
  /** The effective configuration: pending changes that apply at this start are already in. */
  readonly config: VmValues;
  readonly host: HostFacts;
  readonly volumes: VolumeLookup;
  /** SHA-256 in hex; the domain has no crypto of its own. */
  readonly sha256Hex: (text: string) => string;
  readonly paths: GuestPaths;
  readonly options?: CommandOptions;
}

export interface CommandOptions {
  readonly dialect?: Dialect;
  /** Run exactly this machine type: rollback to RAM state, incoming migration. */
  readonly machine?: string;
  /** QEMU machine version kept for this VM since it was created, as `7.2`; the host's newest without. */
  readonly machineVersion?: string;
  /** Use exactly this `-cpu` value: rollback to RAM state, incoming migration. */
  readonly cpu?: string;
  /** Create, but do not run the CPUs. */
  readonly paused?: boolean;
  /** Wait for `migrate-incoming`. */
  readonly incoming?: boolean;
  /** QEMU ends when the guest powers off; otherwise it stays until it is told to quit, so that the cause is known. */
  readonly exitOnShutdown?: boolean;
  /** `-uuid` of a VM whose smbios1 has none. */
  readonly uuid?: string;
  /** Most memory for translated code under TCG; QEMU's default is an eighth of the host's. */
  readonly tcgBufferMiB?: number;
  readonly vncPassword?: boolean;
  /** Descriptors of NICs, as the process that starts QEMU passes them. */
  readonly netDescriptors?: Readonly<Record<string, NetDescriptors>>;
  /** netN -> unix socket of the process that is the network behind the card, instead of a tap or QEMU's own. */
  readonly netSockets?: Readonly<Record<string, string>>;
  /** netN -> MTU that the guest coming in by migration has. */
  readonly netHostMtu?: Readonly<Record<string, number>>;
  /** microvm is no machine type of PVE's API; only our own API sets this. */
  readonly microvm?: boolean | MicrovmBoot;
}

/** Files of the host that a microvm boots. */
export interface MicrovmBoot {
  readonly kernel: string;
  readonly initrd?: string;
  readonly cmdline?: string;
}

/** One descriptor per queue. */
export interface NetDescriptors {
  readonly tap: readonly number[];
  readonly vhost?: readonly number[];
}

/** Sockets and helpers of one guest. */
export interface GuestPaths extends MonitorPaths {
  readonly binary: string;
  readonly agent: string;
  readonly vnc: string;
  readonly spice: string;
  readonly swtpm: string;
  /** Temporary variable store of an OVMF guest without efidisk0. */
  readonly efiVars: string;
  readonly serial: (index: number) => string;
  readonly virtiofs: (index: number) => string;
  readonly sharedMemory: (name: string) => string;
  readonly hugepages: (sizeMiB: number) => string;
}

export type ProtocolNode = BlockNode;

/** How QEMU reaches a volume. */
export interface ResolvedVolume {
  readonly node: ProtocolNode;
  readonly format: string;
  /** What PVE's `-drive` calls it; needed for the `pve` dialect with machine versions before 10.0. */
  readonly legacyPath?: string;
  readonly contentType: "images" | "iso" | "import" | "other";
  readonly storage?: VolumeStorage;
  /** Snapshots below the current image, nearest first, where snapshots are a chain of volumes. */
  readonly chain?: readonly { readonly snapshot: string; readonly node: ProtocolNode }[];
  /** What the guest writes to instead, for this run alone (`snapshot=1`): an empty qcow2 image of the volume's size. */
  readonly overlay?: ProtocolNode;
  /** A file that ends inside a page of memory. */
  readonly unaligned?: boolean;
  /** Images below it by our records, nearest first: QEMU is told them, and follows no header. Absent = not known. */
  readonly backing?: readonly { readonly node: ProtocolNode; readonly format: string }[];
  /** What a SCSI inquiry of a passed-through device says. */
  readonly scsi?: "disk" | "tape";
}

export interface VolumeStorage {
  readonly id: string;
  readonly type: string;
  /** Content types the storage is for. */
  readonly content: readonly string[];
  readonly krbd?: boolean;
  readonly nocow?: boolean;
  readonly snapshotAsVolumeChain?: boolean;
}

/** Finds the volume or path of a drive; throws when there is none. */
export interface VolumeLookup {
  (file: string, drive: { readonly key: string; readonly drive: Drive }): ResolvedVolume;
}

export interface QemuCommand {
  readonly argv: readonly string[];
  /** Said in the task log, in PVE's words where PVE says it too. */
  readonly warnings: readonly string[];
  /** For status: where this host makes the guest differ from its configuration. */
  readonly notes: readonly string[];
  readonly machine: string;
  readonly cpu: string;
  /** What QMP `query-uuid` will say; undefined when neither smbios1 nor the options name one. */
  readonly uuid: string | undefined;
  readonly accelerator: "kvm" | "tcg";
  /** Devices chosen for hostpciN, to be bound and reserved. */
  readonly pciDevices: Readonly<Record<string, readonly string[]>>;
}
