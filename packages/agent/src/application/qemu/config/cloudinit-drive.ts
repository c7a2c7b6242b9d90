// A VM's cloud-init drive: a volume with a name of its own, made from the configuration whenever the VM starts or a
// client asks for it. Nothing in it is worth keeping, so it is never copied.
import { conflict } from "@gpve/domain/request/failures.ts";
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { CLOUDINIT_DRIVE_BYTES } from "@gpve/domain/vm/cloudinit/cloudinit-drive.ts";
import { clearCloudinitState } from "@gpve/domain/vm/cloudinit/cloudinit-state.ts";
import { findCloudinitDrive, isCloudinitVolume, listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { Drive } from "@gpve/domain/vm/config/property-types.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { without } from "@gpve/domain/guest/guest-config.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { CloudinitDrives } from "@gpve/domain/vm/cloudinit/cloudinit-drives.ts";
import type { VmConfigs } from "./vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface CloudinitDrivePorts {
  readonly storages: GuestStorages;
  readonly cloudinit: CloudinitDrives;
  readonly configs: VmConfigs;
  readonly processes: QemuProcesses;
}

type Format = "raw" | "qcow2" | "vmdk";
type Log = (line: string) => void;

/** `local:cloudinit` asks for a new one. */
export function isNewCloudinit({ file }: Drive): boolean {
  return parseVolumeId(file)?.volname === "cloudinit";
}

/** A VM has one at most; `sections` hold what it has, will have and is getting. */
export function refuseSecondCloudinit(key: string, drive: Drive, sections: readonly VmValues[]): void {
  if (!isNewCloudinit(drive)) return;
  for (const section of sections) {
    const other = findCloudinitDrive(without(section, key));
    if (other !== undefined) throw conflict(`${key} - cloud-init drive is already attached at '${other}'`);
  }
}

export async function allocateCloudinit(
  host: CloudinitDrivePorts,
  vmid: number,
  storage: string,
  wanted: Format | undefined,
  work: { readonly signal?: AbortSignal; readonly log: Log },
): Promise<string> {
  const plugin = host.storages.plugin(storage);
  await plugin.activate();
  const format = plugin.format(wanted ?? "qcow2");
  const { name } = plugin.own(vmid, `vm-${vmid}-cloudinit`, format);
  const volname = await plugin.alloc({ vmid, format, name, size: CLOUDINIT_DRIVE_BYTES }, work);
  return formatVolumeId({ storage, volname });
}

/** Makes the drive anew from these values; one whose volume is gone gets a new one. */
export async function writeCloudinit(
  host: CloudinitDrivePorts,
  vmid: number,
  values: VmValues,
  log: Log,
): Promise<void> {
  for (const { drive } of listDrives(values)) {
    if (!isCloudinitVolume(drive.file) || !drive.file.includes(`vm-${vmid}-cloudinit`)) continue;
    const { plugin, volname, storage } = volumeOf(host, drive.file);
    await plugin.activate();
    const there = await plugin.list({ content: ["images"], vmid });
    if (!there.some((each) => each.volname === volname))
      await allocateCloudinit(host, vmid, storage, plugin.block(volname).format, { log });
    log("generating cloud-init ISO");
    await host.cloudinit.write(plugin, volname, vmid, values);
  }
}

/** The drive says what the configuration says, and that is written down. */
export async function applyCloudinit(host: CloudinitDrivePorts, vmid: number, log: Log): Promise<void> {
  const config = host.configs.get(vmid);
  if (findCloudinitDrive(config.values) === undefined) return;
  await writeCloudinit(host, vmid, config.values, log);
  if (config.special["cloudinit"] !== undefined) await host.configs.change(vmid, clearCloudinitState);
}
