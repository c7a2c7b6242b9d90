// Wires the filters of network cards to the guests that have them.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { listNets } from "@gpve/domain/vm/config/vm-network.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { VmConfigs } from "./application/qemu/config/vm-configs.ts";
import type { VmBridges } from "./infrastructure/net/vm-bridges.ts";

/** Guests that ran before this agent did have their filters again, whatever became of those of the last agent. */
export async function adoptFilters(
  network: VmBridges,
  configs: VmConfigs,
  running: readonly GuestProcess[],
  log: Logger,
): Promise<void> {
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
