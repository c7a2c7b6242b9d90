// What a VM takes of its tenant's quota, from its configuration alone.
//
// CPU is cores x sockets, not vcpus: vcpus says how many are plugged in at start, and the guest may be given the rest
// at any time without another word about its size. Memory is what it may have, not what a balloon leaves it. Of a value
// that waits for the next start, the larger of both counts. A disk counts as large as the guest sees it, however little
// is written, once for each volume, also as unused disk and in snapshots. A template takes storage only.
import { add, bytesOn, most, NOTHING, type Amounts } from "../quota/amounts.ts";
import { parseVolumeId } from "../storage/volume-id.ts";
import { effectiveValues } from "./change/pending.ts";
import { isCdrom, isCloudinitVolume, listDrives } from "./config/drive.ts";
import { without } from "../guest/guest-config.ts";
import type { VmConfig, VmValues } from "./config/vm-config.ts";
import { memoryMiB } from "./config/vm-properties.ts";
import { ramVolumeBytes } from "./snapshot/ram-volume-size.ts";

/** Bytes of volumes whose size the configuration does not say, by volume id. */
export type VolumeSizes = Readonly<Record<string, number>>;

const MIB = 1024 ** 2;

export function vmDemand(config: VmConfig, sizes: VolumeSizes = {}): Amounts {
  const effective = effectiveValues(config);
  const stored = storageOf(config, sizes);
  if (effective["template"] === "1") return stored;
  const snapshots = Object.keys(config.snapshots).length;
  return add(
    most(machineOf(config.values), machineOf(effective)),
    stored,
    { vmCount: 1 },
    snapshots === 0 ? NOTHING : { snapshots },
  );
}

/** Every volume that a configuration names, with its size; 0 = not known. */
export function vmVolumes(config: VmConfig, sizes: VolumeSizes = {}): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  const note = (volid: string, bytes: number): void => {
    found.set(volid, Math.max(found.get(volid) ?? 0, bytes));
  };
  const sections = [config.values, without(config.pending, "delete"), ...Object.values(config.snapshots)];
  for (const values of sections) {
    for (const { drive } of listDrives(values)) {
      const isOwn = !isCdrom(drive) || isCloudinitVolume(drive.file);
      if (isOwn && parseVolumeId(drive.file) !== undefined)
        note(drive.file, drive.size ?? sizes[drive.file] ?? 0);
    }
    for (const [key, text] of Object.entries(values))
      if (/^unused\d+$/.test(key)) note(text, sizes[text] ?? 0);
    const ram = values["vmstate"];
    if (ram !== undefined) note(ram, sizes[ram] ?? ramVolumeBytes(values));
  }
  return found;
}

/** What must be noted beside a configuration when it changes: a disk that becomes unused no longer says its size. */
export function unsaidSizes(before: ReadonlyMap<string, number>, after: VmConfig): VolumeSizes | undefined {
  const unsaid = [...vmVolumes(after)].flatMap(([volid, bytes]) => {
    const known = before.get(volid) ?? 0;
    return bytes === 0 && known > 0 ? [[volid, known] as const] : [];
  });
  return unsaid.length === 0 ? undefined : Object.fromEntries(unsaid);
}

function storageOf(config: VmConfig, sizes: VolumeSizes): Amounts {
  const volumes = [...vmVolumes(config, sizes)].map(([volid, bytes]) => {
    const storage = parseVolumeId(volid)?.storage;
    return storage === undefined ? NOTHING : bytesOn(storage, bytes);
  });
  return add(...volumes);
}

function machineOf(values: VmValues): Amounts {
  const gpuCount = Object.keys(values).filter((key) => /^hostpci\d+$/.test(key)).length;
  return {
    cpu: Number(values["cores"] ?? 1) * Number(values["sockets"] ?? 1),
    memory: memoryMiB(values["memory"]) * MIB,
    ...(gpuCount === 0 ? {} : { gpuCount }),
  };
}
