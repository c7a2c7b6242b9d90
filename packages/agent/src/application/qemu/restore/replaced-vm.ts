// The VM that a restore replaces: kept as it was until the new one is there, then what nobody needs of it is freed.
import { conflict } from "@gpve/domain/request/failures.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { addUnused, isCloudinitVolume, listDrives } from "@gpve/domain/vm/config/drive.ts";
import { checkLock } from "@gpve/domain/guest/guest-lock.ts";
import type { VmConfig, VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { freeVolume, isOwned, ownedVolumes } from "../config/free-volumes.ts";
import { restoreRefused, type RestoreWork } from "./restore-request.ts";
import { runningVm } from "../running-vm.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface ReplacedVmPorts {
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
  readonly storages: GuestStorages;
}

export function checkReplaceable(host: ReplacedVmPorts, vmid: number): VmConfig {
  const config = host.configs.get(vmid);
  checkLock(config);
  if (config.values["protection"] === "1")
    throw conflict(`${restoreRefused(vmid, "-")} protection mode enabled`);
  if (runningVm(host, vmid) !== undefined)
    throw new AppError("object.conflict", restoreRefused(vmid, "vm is running"), { pveStatus: 500 });
  return config;
}

/** Disks of the old VM that the archive knows nothing of stay, as unused ones. */
export function withKeptDisks(
  host: ReplacedVmPorts,
  vmid: number,
  old: VmConfig,
  restored: VmValues,
): VmValues {
  let values = restored;
  for (const volid of keptDisks(host, vmid, old, restored)) values = addUnused(values, volid);
  return values;
}

/** Never fails: what cannot be freed is named. */
export async function freeReplaced(
  host: ReplacedVmPorts,
  vmid: number,
  old: VmConfig,
  work: Pick<RestoreWork, "log" | "warn">,
): Promise<void> {
  const { values } = host.configs.get(vmid);
  const used = new Set(Object.values(values).flatMap((text) => [text, text.split(",")[0] ?? ""]));
  for (const volid of ownedVolumes(host, vmid, old)) {
    if (used.has(volid)) continue;
    await freeVolume(host, volid, work.log).catch((err: unknown) => work.warn(messageOf(err)));
  }
  // After a restore there are no snapshots any more, so kept disks need none.
  for (const volid of keptDisks(host, vmid, old, values)) {
    const { plugin, volname } = volumeOf(host, volid);
    try {
      const there = new Set((await plugin.snapshots(volname)).map(({ name }) => name));
      for (const name of Object.keys(old.snapshots))
        if (there.has(name)) await plugin.deleteSnapshot(volname, name);
    } catch (err) {
      work.warn(messageOf(err));
    }
  }
}

function keptDisks(host: ReplacedVmPorts, vmid: number, old: VmConfig, restored: VmValues): string[] {
  const unused = Object.entries(old.values).flatMap(([key, text]) => (/^unused\d+$/.test(key) ? [text] : []));
  const drives = listDrives(old.values)
    .filter(({ key, drive }) => restored[key] === undefined && !isCloudinitVolume(drive.file))
    .map(({ drive }) => drive.file);
  return [...drives, ...unused].filter((volid) => isOwned(host, vmid, volid));
}
