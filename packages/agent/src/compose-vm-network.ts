// Wires the filters of network cards to the guests that have them.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { listNets } from "@gpve/domain/vm/config/vm-network.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { VmConfigs } from "./application/qemu/config/vm-configs.ts";
import { isUserNetworkUid } from "./infrastructure/guest-process/guest-uid.ts";
import { keepGuestNetwork } from "./infrastructure/net/make-guest-network.ts";
import type { VmBridges } from "./infrastructure/net/vm-bridges.ts";

/** Guests that ran before this agent did have their filters again, whatever became of those of the last agent. */
export async function adoptFilters(
  network: VmBridges,
  configs: VmConfigs,
  running: readonly GuestProcess[],
  log: Logger,
): Promise<void> {
  const userNetworks = running
    .filter(({ uid = 0, hasExited }) => !hasExited && isUserNetworkUid(uid))
    .map(({ id }) => id);
  await network.hostWall?.adopt(userNetworks).catch((err: unknown) => {
    if (userNetworks.length > 0)
      log.error({ err: messageOf(err) }, "user-mode networks may reach this machine's own services");
  });
  if (network.tapsMissing !== undefined) return;
  const vmids = running.flatMap(({ id }) => (/^\d+$/.test(id) ? [Number(id)] : []));
  try {
    await network.adoptFilters(
      vmids.map((vmid) => ({ vmid, nets: listNets(configs.find(vmid)?.values ?? {}) })),
    );
  } catch (err) {
    log.error({ err: messageOf(err) }, "cards with firewall=1 may send with any MAC address");
  }
}

/** Filter and wall are made again where somebody took a part of them away. */
export async function keepFilters(
  { macFilter, hostWall }: VmBridges,
  deps: { readonly clock: Clock; readonly log: Logger },
  signal: AbortSignal,
): Promise<void> {
  const kept = hostWall === undefined ? [macFilter] : [macFilter, hostWall];
  await Promise.all(kept.map((each) => keepGuestNetwork(each, deps, signal)));
}

/** What a guest or a helper of one had of the kernel's filters goes with it. */
export async function dropFilters(network: VmBridges, id: string): Promise<void> {
  await network.unwall(id);
  await network.unfilter(Number(id));
}
