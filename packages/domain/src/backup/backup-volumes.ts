// Which volumes of a VM a backup takes, and why.
import type { BackupVolume } from "../guest/guest-kind.ts";
import { isCdrom, listDrives } from "../vm/config/drive.ts";
import type { VmValues } from "../vm/config/vm-config.ts";

export function backupVolumes(values: VmValues): BackupVolume[] {
  return listDrives(values)
    .filter(({ drive }) => !isCdrom(drive))
    .map(({ key, drive }) => {
      const unusedFirmware = key.startsWith("efidisk") && values["bios"] !== "ovmf";
      const included = !unusedFirmware && drive.backup !== false;
      const reason = unusedFirmware ? "efidisk but no OMVF BIOS" : `backup=${included ? "yes" : "no"}`;
      return { key, volume: drive.file, included, reason };
    });
}
