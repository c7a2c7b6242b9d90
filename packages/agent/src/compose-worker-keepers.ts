// Wires what looks after workers of virtual clusters again and again.
import { KeepBalancers, type KeepBalancersDeps } from "./application/vnode/keep-balancers.ts";
import { KeepDevices, type KeepDevicesDeps } from "./application/vnode/keep-devices.ts";
import { KeepVnodes, type KeepVnodesDeps } from "./application/vnode/keep-vnodes.ts";
import { KeepVolumes, type KeepVolumesDeps } from "./application/vnode/keep-volumes.ts";

type WorkerKeeperParts = KeepVnodesDeps & KeepVolumesDeps & KeepBalancersDeps & KeepDevicesDeps;

interface WorkerKeeper {
  begin(): void;
  close(): void;
}

export interface WorkerKeepers {
  readonly workerKeepers: readonly WorkerKeeper[];
  /** Knows what claims wait for, too. */
  readonly volumeKeeper: KeepVolumes;
}

export function composeWorkerKeepers(parts: WorkerKeeperParts): WorkerKeepers {
  const volumeKeeper = new KeepVolumes(parts);
  const others = [new KeepVnodes(parts), new KeepBalancers(parts), new KeepDevices(parts)];
  return { workerKeepers: [volumeKeeper, ...others], volumeKeeper };
}
