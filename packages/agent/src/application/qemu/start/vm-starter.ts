// Starting a VM, as other use cases see it.
import type { GuestFile } from "@gpve/domain/guest/guest-processes.ts";
import type { ResolvedVolume } from "@gpve/domain/vm/argv/command-input.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import type { StartFromState } from "@gpve/domain/vm/snapshot/vm-snapshot-rules.ts";

export interface StartArgs {
  readonly vmid: number;
  readonly skiplock?: boolean;
  readonly paused?: boolean;
  /** For this start alone: another machine type, another `-cpu` value. */
  readonly machine?: string;
  readonly cpu?: string;
  /** RAM is loaded after the start: the guest gets the machine it had and waits. */
  readonly from?: StartFromState;
  /** Drives that are others, for now, than the configuration says, and what else QEMU must be able to open. */
  readonly instead?: {
    readonly drives: VmValues;
    readonly files: readonly GuestFile[];
    /** What lies below the volumes of these drives for now. */
    readonly below: ReadonlyMap<string, NonNullable<ResolvedVolume["backing"]>>;
  };
}

export interface StartWork {
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
  readonly warn: (line: string) => void;
}

/** A VM that comes from another node: as it is there, whatever this host would give it. */
export interface ReceivedVm {
  readonly vmid: number;
  readonly values: VmValues;
  readonly machine: string;
  readonly cpu?: string | undefined;
}

export interface VmStarter {
  /** Its QEMU waits for `migrate-incoming`, and then for `cont`. */
  receive(vm: ReceivedVm, work: StartWork): Promise<void>;
  /** Everything was checked when `beforeStart` is called, with the RAM that a suspended guest is started from. */
  start(args: StartArgs, work: StartWork, beforeStart?: (suspended?: string) => Promise<void>): Promise<void>;
  /** Most of a guest's helpers end when QEMU hangs up; those that do not are ended. */
  stopHelpers(vmid: number): Promise<void>;
}
