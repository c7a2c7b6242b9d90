import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { dropImports, type ImportDiskPorts } from "../disk/import-disk.ts";
import { freeVolume, listVolumes } from "./free-volumes.ts";
import { storagesFor } from "./new-disks.ts";

/** Takes back what a request for these disks has made so far: every volume of the VM that is not among the kept ones. */
export async function undoNewDisks(
  host: ImportDiskPorts,
  vmid: number,
  values: VmValues,
  kept: Iterable<string>,
  log: (line: string) => void,
): Promise<void> {
  const keep = new Set(kept);
  const found = await listVolumes(host, vmid, storagesFor(values));
  const made = found.filter((volid) => !keep.has(volid));
  await dropImports(host, vmid, values, made);
  for (const volid of made) await freeVolume(host, volid, log);
}
