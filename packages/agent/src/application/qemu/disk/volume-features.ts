// What all disks of a VM can do.
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCdrom, listDrives } from "@gpve/domain/vm/config/drive.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface VolumeFeaturesPorts {
  readonly storages: GuestStorages;
}

export function hasFeatureOnAll(
  host: VolumeFeaturesPorts,
  values: VmValues,
  feature: "snapshot" | "clone" | "copy",
  snapshot?: string,
): boolean {
  return listDrives(values)
    .filter(({ drive }) => !isCdrom(drive))
    .every(({ drive }) => {
      if (parseVolumeId(drive.file) === undefined) return false;
      const { plugin, volname } = volumeOf(host, drive.file);
      return plugin.has(feature, volname, snapshot === undefined ? {} : { snapshot });
    });
}
