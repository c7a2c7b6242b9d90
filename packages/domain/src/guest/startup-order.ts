// In which order guests start and stop: by `startup` order, those without one last, then by VMID.
import { readStartup } from "../vm/vm-properties.ts";

export interface StartableGuest {
  readonly vmid: number;
  readonly onboot: boolean;
  readonly startup?: string;
}

export interface StartStep {
  readonly vmid: number;
  /** Seconds to wait after it has been started. */
  readonly up: number;
  /** Seconds it has to shut down. */
  readonly down: number | undefined;
}

export function startOrder(guests: readonly StartableGuest[]): StartStep[] {
  return guests
    .map(({ vmid, startup }) => ({ vmid, ...readStartup(startup ?? "") }))
    .toSorted((a, b) => byOrder(a.order, b.order) || a.vmid - b.vmid)
    .map(({ vmid, up, down }) => ({ vmid, up: up ?? 0, down }));
}

export function stopOrder(guests: readonly StartableGuest[]): StartStep[] {
  return startOrder(guests).toReversed();
}

function byOrder(a = Number.MAX_SAFE_INTEGER, b = Number.MAX_SAFE_INTEGER): number {
  return a - b;
}
