// Whether a disk of one VM can be given to another.
import { refused } from "@gpve/domain/request/failures.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCdrom, listDrives, requireDrive } from "@gpve/domain/vm/config/drive.ts";
import { isDriveKey } from "@gpve/domain/vm/config/keys.ts";
import { checkLock, isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { requireUnmodified } from "./unmodified.ts";
import { runningVm } from "../running-vm.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";
import type { QemuProcesses } from "@gpve/domain/vm/qemu-processes.ts";

export interface CheckReassignPorts {
  readonly configs: VmConfigs;
  readonly storages: GuestStorages;
  readonly processes: QemuProcesses;
}

export interface ReassignArgs {
  readonly vmid: number;
  readonly disk: string;
  readonly targetVmid: number;
  readonly targetDisk: string;
  readonly digest?: string;
  readonly targetDigest?: string;
}

export function checkReassignable(
  host: CheckReassignPorts,
  args: ReassignArgs,
): { file: string; text: string } {
  const { vmid, targetVmid, disk, targetDisk } = args;
  const [from, to] = [host.configs.ownerOf(vmid), host.configs.ownerOf(targetVmid)];
  if (from === undefined) throw refused(`could not find VM ${vmid}`);
  if (to === undefined) throw refused(`could not find target VM ${targetVmid}`);
  if (from.node !== to.node)
    throw refused(`Both VMs need to be on the same node (${from.node} != ${to.node})`);
  const config = host.configs.get(vmid);
  checkLock(config);
  const target = host.configs.get(targetVmid);
  checkLock(target);
  if (isTemplate(config) || isTemplate(target)) throw refused("Can't move disks from or to template VMs");
  requireUnmodified(config, args.digest, `VM ${vmid}: `);
  requireUnmodified(target, args.targetDigest, `VM ${targetVmid}: `);
  const text = config.values[disk];
  if (text === undefined) throw refused(`Disk '${disk}' for VM '${vmid}' does not exist`);
  if (target.values[targetDisk] !== undefined)
    throw refused(`Target disk key '${targetDisk}' is already in use for VM '${targetVmid}'`);
  const drive = isDriveKey(disk) ? requireDrive(disk, text) : undefined;
  const file = drive?.file ?? text;
  if (drive !== undefined && isCdrom(drive, true))
    throw refused("CD drive contents can't be moved to another VM");
  if (parseVolumeId(file) === undefined) throw refused(`Volume '${file}' not managed by PVE`);
  const inSnapshot = Object.values(config.snapshots).some((values) =>
    listDrives(values).some((each) => each.drive.file === file),
  );
  if (inSnapshot) throw refused("Can't move disk used by a snapshot to another VM");
  const { plugin, volname } = volumeOf(host, file);
  if (!plugin.has("rename", volname))
    throw refused("Storage does not support moving of this disk to another VM");
  if (runningVm(host, vmid) !== undefined && isDriveKey(disk))
    throw refused("Cannot move disk to another VM while the source VM is running - detach first");
  return { file, text };
}
