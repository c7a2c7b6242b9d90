// Guests that ran before this agent did have the filters of their network cards again, whatever became of the last
// agent's.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { listNets, type VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { VmConfigs } from "../config/vm-configs.ts";

export interface AdoptFiltersPorts {
  readonly network: VmNetwork;
  readonly configs: VmConfigs;
  readonly log: Logger;
}

export async function adoptFilters(host: AdoptFiltersPorts, running: readonly GuestProcess[]): Promise<void> {
  const { network, configs, log } = host;
  await network
    .adoptWalls(running.filter(({ hasExited }) => !hasExited))
    .catch((err: unknown) =>
      log.error({ err: messageOf(err) }, "user-mode networks may reach this machine's own services"),
    );
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
