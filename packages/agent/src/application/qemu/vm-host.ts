// What VM use cases need of the node they run on.
import { AppError } from "@gpve/contracts/errors.ts";
import type { BackupChains } from "@gpve/domain/backup/backup-chain.ts";
import type { GuestProcess, GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StoragePlugin } from "@gpve/domain/storage/plugin.ts";
import { requireVolumeId } from "@gpve/domain/storage/volume-id.ts";
import type { CloudinitDrives } from "@gpve/domain/vm/cloudinit/cloudinit-drives.ts";
import type { GuestAgent } from "@gpve/domain/vm/running/guest-agent.ts";
import type { HostDevices } from "@gpve/domain/vm/host/host-devices.ts";
import type { HostMemory } from "@gpve/domain/vm/host/host-memory.ts";
import type { HostFacts } from "@gpve/domain/vm/argv/host-facts.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { PciReservations } from "./start/pci-reservations.ts";
import type { VmConfigs } from "./config/vm-configs.ts";
import type { RamStreams } from "@gpve/domain/vm/snapshot/ram-streams.ts";
import type { VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";

export interface VmStorages {
  /** Throws `storage 'x' does not exist`, or why it cannot be used on this node. */
  plugin(storage: string): StoragePlugin;
  definition(storage: string): StorageDefinition;
}

export interface VmHost {
  readonly node: string;
  readonly configs: VmConfigs;
  /** Which backup the dirty bitmaps of a VM's disks belong to. */
  readonly chains: BackupChains;
  readonly processes: GuestProcesses;
  readonly storages: VmStorages;
  readonly network: VmNetwork;
  readonly ram: RamStreams;
  readonly cloudinit: CloudinitDrives;
  readonly facts: () => HostFacts;
  readonly devices: HostDevices;
  readonly memory: HostMemory;
  readonly pci: PciReservations;
  /** Directories that the cluster's mappings name on this node. */
  readonly directories: () => ReadonlyMap<string, string>;
  /** Throws when a directory of the host is, holds or lies in what no guest may have. */
  readonly requireDirectory: (subject: string, path: string) => Promise<void>;
  /** Resolves when the facts may be used. */
  readonly hostKnown: () => Promise<void>;
  /** Resolves when it is also known what runs guests here; rejects where nothing does. */
  readonly mayStart: () => Promise<void>;
  readonly qemuBinary: string;
  /** Why a mapping of this node must not be used: its hardware is another one by now. */
  readonly changedHardware: (type: "pci" | "usb", mapping: string) => string | undefined;
  /** The folder in which a guest makes its sockets. */
  readonly ioFolder: (id: string) => string;
  /** The agent inside a running VM; one conversation for all its users. */
  readonly guestAgent: (process: GuestProcess) => GuestAgent;
  readonly clock: Clock;
  readonly fileExists: (path: string) => boolean;
  /** undefined when there is none. */
  readonly fileBytes: (path: string) => number | undefined;
  readonly isExecutable: (path: string) => boolean;
  /** Runs a program and gives what it printed. */
  /** Resolves with the exit code; what the script says is logged as it says it. */
  readonly runScript: (
    path: string,
    args: readonly string[],
    work: { readonly log: (line: string) => void; readonly signal?: AbortSignal },
  ) => Promise<number>;
  readonly sha256Hex: (text: string) => string;
  readonly newUuid: () => string;
  readonly newMac: () => string;
}

export function processId(vmid: number): string {
  return String(vmid);
}

export function runningVm(host: VmHost, vmid: number): GuestProcess | undefined {
  const process = host.processes.get(processId(vmid));
  return process === undefined || process.hasExited ? undefined : process;
}

/** PVE's text where it looks for a VM's process first, and for its configuration only because of that. */
export function requireOnNode(host: VmHost, vmid: number): void {
  if (host.configs.has(vmid)) return;
  const message = `unable to find configuration file for VM ${vmid} on node '${host.node}'`;
  throw new AppError("object.not_found", message, { pveStatus: 500 });
}

/** Throws PVE's text for methods that need a running VM. */
export function requireRunning(host: VmHost, vmid: number): GuestProcess {
  requireOnNode(host, vmid);
  const process = runningVm(host, vmid);
  if (process === undefined)
    throw new AppError("object.conflict", `VM ${vmid} not running`, { pveStatus: 500 });
  return process;
}

export function volumeOf(
  host: Pick<VmHost, "storages">,
  volid: string,
): { plugin: StoragePlugin; volname: string; storage: string } {
  const { storage, volname } = requireVolumeId(volid);
  return { plugin: host.storages.plugin(storage), volname, storage };
}
