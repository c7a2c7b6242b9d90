// What waited for a VM's next start takes effect: when it starts, and as soon as it was stopped.
import { messageOf } from "@gpve/contracts/errors.ts";
import { applyAllPending } from "@gpve/domain/vm/change/pending.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { freeDropped, withoutLent } from "./free-volumes.ts";
import type { VmConfigs } from "./vm-configs.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";

export interface ApplyPendingPorts {
  readonly configs: VmConfigs;
  readonly storages: GuestStorages;
}

export async function applyPendingChanges(
  host: ApplyPendingPorts,
  vmid: number,
  log: (line: string) => void,
): Promise<VmConfig> {
  const before = host.configs.get(vmid);
  const config = await host.configs.change(vmid, (current) =>
    withoutLent(host, vmid, current, applyAllPending(current)),
  );
  await freeDropped(host, vmid, before, config, log);
  return config;
}

/** The VM is stopped whatever becomes of this; its next start tries again. */
export async function settleStopped(
  host: ApplyPendingPorts,
  vmid: number,
  log: (line: string) => void,
): Promise<void> {
  const config = host.configs.find(vmid);
  if (config === undefined || Object.keys(config.pending).length === 0) return;
  try {
    await applyPendingChanges(host, vmid, log);
  } catch (err) {
    log(`changes of VM ${vmid} still wait: ${messageOf(err)}`);
  }
}
