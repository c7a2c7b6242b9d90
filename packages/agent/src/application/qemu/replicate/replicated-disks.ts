// Which disks of a VM are copied to another node: those that only its own node has.
import type { ImageLayer } from "@gpve/domain/storage/block-node.ts";
import { isTemplate } from "@gpve/domain/guest/guest-lock.ts";
import { refused } from "@gpve/domain/request/failures.ts";
import { isShared } from "@gpve/domain/storage/definition.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCdrom, isCloudinitVolume, isInQemu, listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface ReplicatedDisk {
  readonly key: string;
  readonly volid: string;
  readonly storage: string;
  readonly node: ImageLayer["node"];
  readonly format: ImageLayer["format"];
  readonly backing: readonly ImageLayer[];
  readonly size: number;
  readonly isBase: boolean;
  /** The QEMU of a running VM has it open for writing. */
  readonly isInQemu: boolean;
}

export async function replicatedDisks(
  host: { readonly storages: GuestStorages },
  vmid: number,
  config: VmConfig,
): Promise<readonly ReplicatedDisk[]> {
  if (isTemplate(config)) throw refused(`VM ${vmid} is a template: it does not change, copy it once`);
  const disks: ReplicatedDisk[] = [];
  for (const { key, drive } of listDrives(config.values)) {
    const storage = parseVolumeId(drive.file)?.storage;
    const isCloudinit = isCloudinitVolume(drive.file);
    if (storage === undefined || (isCdrom(drive) && !isCloudinit) || drive.replicate === false) continue;
    if (isShared(host.storages.definition(storage))) continue;
    const { plugin, volname } = volumeOf(host, drive.file);
    if (!plugin.has("replicate", volname))
      throw refused(
        `missing replicate feature on volume '${drive.file}' (${key}): move it to another storage, or set replicate=0`,
      );
    await plugin.activate();
    const { size } = await plugin.info(volname);
    const { node, format, backing = [] } = await plugin.attach(volname);
    const { isBase } = plugin.parse(volname);
    const open = !isCloudinit && isInQemu(config.values, key);
    disks.push({ key, volid: drive.file, storage, node, format, backing, size, isBase, isInQemu: open });
  }
  if (disks.length === 0) throw refused("No replicatable volumes found");
  return disks;
}
