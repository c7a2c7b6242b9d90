// A VM's cloud-init drive is made again for a guest that may run.
import { findCloudinitDrive } from "@gpve/domain/vm/config/drive.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import { changeMedia } from "../live/live-drives.ts";
import { runningVm } from "../running-vm.ts";
import { applyCloudinit, type CloudinitDrivePorts } from "./cloudinit-drive.ts";
import type { StartPlanPorts } from "../start/start-plan.ts";

export interface RegenerateCloudinitPorts extends CloudinitDrivePorts, StartPlanPorts {}

/** A running guest gets the new disc in its drive. */
export async function regenerateCloudinit(
  host: RegenerateCloudinitPorts,
  vmid: number,
  log: (line: string) => void,
): Promise<void> {
  checkLock(host.configs.get(vmid));
  const { values } = host.configs.get(vmid);
  const key = findCloudinitDrive(values);
  if (key === undefined) return;
  await applyCloudinit(host, vmid, log);
  const process = runningVm(host, vmid);
  if (process !== undefined) await changeMedia({ host, vmid, process, log }, values, key, values[key] ?? "");
}
