// The configuration that a VM gets when a copy of its disks takes over.
import { driveFile, isCdrom, isCloudinitVolume, listDrives } from "../vm/config/drive.ts";
import type { VmConfig, VmValues } from "../vm/config/vm-config.ts";
import { parseVolumeId } from "../storage/volume-id.ts";
import type { ReplicaVolume } from "./replica.ts";

export interface FailoverConfig {
  readonly config: VmConfig;
  /** Disks that have no copy: "scsi1 (local:100/vm-100-disk-1.qcow2)". */
  readonly missing: readonly string[];
  /** What else of it stays behind. */
  readonly left: readonly string[];
}

/** `isLocal`: only one node has volumes of this storage. */
export function failoverConfig(
  config: VmConfig,
  volumes: readonly Pick<ReplicaVolume, "source" | "volid">[],
  isLocal: (storage: string) => boolean,
): FailoverConfig {
  const copies = new Map(volumes.map(({ source, volid }) => [source, volid]));
  const missing: string[] = [];
  const left: string[] = [];
  const drives = new Map(listDrives(config.values).map(({ key, drive }) => [key, drive]));
  const values: Record<string, string> = {};
  for (const [key, text] of Object.entries(config.values)) {
    const file = drives.has(key) || /^(?:unused\d+|vmstate)$/.test(key) ? driveFile(text) : undefined;
    const storage = file === undefined ? undefined : parseVolumeId(file)?.storage;
    if (file === undefined || storage === undefined || !isLocal(storage)) {
      if (key !== "parent" && key !== "lock") values[key] = text;
      continue;
    }
    const drive = drives.get(key);
    const copy = copies.get(file);
    if (copy !== undefined) values[key] = text.replace(file, copy);
    else if (drive !== undefined && isCdrom(drive) && !isCloudinitVolume(file)) {
      values[key] = "none,media=cdrom";
      left.push(`the disc in ${key} (${file})`);
    } else if (drive === undefined) left.push(`${key} (${file})`);
    else missing.push(`${key} (${file})`);
  }
  const snapshots = Object.keys(config.snapshots);
  if (snapshots.length > 0) left.push(`its snapshots (${snapshots.join(", ")})`);
  return { config: { ...config, values: values as VmValues, snapshots: {} }, missing, left };
}

export function ageText(seconds: number): string {
  const parts = [
    [Math.floor(seconds / 86_400), "d"],
    [Math.floor((seconds % 86_400) / 3600), "h"],
    [Math.floor((seconds % 3600) / 60), "min"],
    [Math.floor(seconds % 60), "s"],
  ] as const;
  const said = parts.filter(([count]) => count > 0).slice(0, 2);
  return said.length === 0 ? "0 s" : said.map(([count, unit]) => `${count} ${unit}`).join(" ");
}
