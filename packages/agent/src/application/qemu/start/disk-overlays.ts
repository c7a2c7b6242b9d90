// Disks with `snapshot=1`: what the guest writes goes with the run. QEMU writes to an empty image of the same size above
// the volume, which lies in the guest's own folder and is removed with it.
import { refused } from "@gpve/domain/request/failures.ts";
import type { QemuProcesses, QemuStart } from "@gpve/domain/vm/qemu-processes.ts";
import { emptyQcow2 } from "@gpve/domain/image/empty-qcow2.ts";
import { parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import type { ResolvedVolume } from "@gpve/domain/vm/argv/command-input.ts";
import { listDisks } from "@gpve/domain/vm/config/drive.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { processId } from "../running-vm.ts";
import { volumeOf, type GuestStorages } from "../../guest/guest-storages.ts";

export interface DiskOverlaysPorts {
  readonly processes: QemuProcesses;
  readonly storages: GuestStorages;
}

type IoFiles = NonNullable<QemuStart["ioFiles"]>;

export async function withOverlays<Volumes extends { resolved: ReadonlyMap<string, ResolvedVolume> }>(
  host: DiskOverlaysPorts,
  vmid: number,
  values: VmValues,
  volumes: Volumes,
): Promise<Volumes & { readonly ioFiles: IoFiles }> {
  const resolved = new Map(volumes.resolved);
  const ioFiles: IoFiles[number][] = [];
  for (const { key, drive } of listDisks(values)) {
    const volume = resolved.get(drive.file);
    if (drive.snapshot !== true || volume === undefined) continue;
    if (parseVolumeId(drive.file) === undefined)
      throw refused(
        `${key}: snapshot=1 needs the volume of a storage, '${drive.file}' is a path of the host: import it first`,
      );
    const { plugin, volname } = volumeOf(host, drive.file);
    const name = `${key}.overlay`;
    ioFiles.push({ name, content: emptyQcow2((await plugin.info(volname)).size) });
    const filename = `${host.processes.placeOf(processId(vmid)).ioFolder}/${name}`;
    resolved.set(drive.file, { ...volume, overlay: { driver: "file", filename } });
  }
  return { ...volumes, resolved, ioFiles };
}
