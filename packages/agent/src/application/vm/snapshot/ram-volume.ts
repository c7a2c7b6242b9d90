// The volume that a running guest's RAM is written to, and what must be known to load it again.
import { formatVolumeId, parseVolumeId } from "@gpve/domain/storage/volume-id.ts";
import { isCdrom, listDrives } from "@gpve/domain/vm/drive.ts";
import type { SavedState } from "@gpve/domain/vm/snapshot.ts";
import type { VmValues } from "@gpve/domain/vm/vm-config.ts";
import { memoryMiB } from "@gpve/domain/vm/vm-properties.ts";
import { requireRunning, type VmHost } from "../vm-host.ts";

const MIB = 1024 * 1024;
/** Devices and what changes while it is written, beside the RAM itself. */
const STATE_MARGIN_MIB = 500;

export interface RamVolumeRequest {
  readonly vmid: number;
  readonly storage: string;
  /** Ends the volume's name: a snapshot's, or "suspend-2026-01-31". */
  readonly name: string;
}

/** `begun` is called with the volume's id before anything is made. */
export async function allocateRamVolume(
  host: VmHost,
  values: VmValues,
  request: RamVolumeRequest,
  work: { readonly signal: AbortSignal; readonly begun: (vmstate: string) => Promise<void> },
): Promise<SavedState> {
  const { vmid, storage, name } = request;
  const process = requireRunning(host, vmid);
  const plugin = host.storages.plugin(storage);
  await plugin.activate();
  const file = stateName(vmid, name);
  const vmstate = formatVolumeId({ storage, volname: `${vmid}/${file}` });
  await work.begun(vmstate);
  const size = (memoryMiB(values["memory"]) * 2 + STATE_MARGIN_MIB) * MIB;
  await plugin.alloc({ vmid, format: "raw", name: file, size }, work);
  const { machine = "", cpu } = (process.note ?? {}) as { machine?: string; cpu?: string };
  return { vmstate, runningmachine: machine, ...(cpu === undefined ? {} : { runningcpu: cpu }) };
}

export function stateName(vmid: number, name: string): string {
  return `vm-${vmid}-state-${name}.raw`;
}

/** `vmstatestorage`, else where the first disk is, else `local`. */
export function stateStorage(values: VmValues): string {
  const wanted = values["vmstatestorage"];
  if (wanted !== undefined) return wanted;
  for (const { drive } of listDrives(values)) {
    const storage = isCdrom(drive) ? undefined : parseVolumeId(drive.file)?.storage;
    if (storage !== undefined) return storage;
  }
  return "local";
}
