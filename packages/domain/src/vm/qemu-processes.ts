// QEMU among the supervised processes: it has monitors, network cards made of taps, and disks that a backup reads.
import type { CallOptions, GuestProcess, GuestProcesses, GuestStart } from "../guest/guest-processes.ts";
import type { Qmp } from "./qmp/qmp.ts";

export interface GuestTap {
  /** Kernel interface name, at most 15 characters. */
  readonly name: string;
  /** "" = on no bridge. */
  readonly bridge: string;
  readonly mtu?: number;
  readonly queues?: number;
}

export interface QemuStart extends GuestStart {
  /** QEMU's -uuid: proof, over QMP, that a process is this guest. */
  readonly uuid?: string;
  /** Given to QEMU as descriptors, in order, from `firstFd` on: all queues of all taps, then vhost. */
  readonly taps?: readonly (GuestTap & { readonly firstFd: number })[];
  readonly vhost?: { readonly count: number; readonly firstFd: number };
}

export interface QemuProcess extends GuestProcess {
  readonly qmp: Qmp;
  /** Makes a tap and gives it to QEMU as netdev `netdevId`. */
  plugTap(netdevId: string, tap: GuestTap & { readonly vhost: boolean }): Promise<void>;
  /**
   * Keeps the process, for a backup that still reads its disks, when the guest switches itself off. The returned
   * function lets it go.
   */
  holdOpen(): () => void;
}

export interface QemuProcesses extends GuestProcesses {
  /** Its arguments name its monitors at their places (argv/machine/monitors.ts). Rejects as `start` does. */
  startQemu(start: QemuStart, options?: CallOptions): Promise<QemuProcess>;
  /** undefined also for a process that is no QEMU. */
  qemu(id: string): QemuProcess | undefined;
}
