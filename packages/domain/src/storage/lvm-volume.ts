// Volume names of thin LVM storages: "vm-100-disk-0", of templates "base-100-disk-0". The name is that of the logical
// volume; a snapshot is one of its own, "snap_vm-100-disk-0_before".
import { storageRefused } from "./failures.ts";
import type { VolumeName } from "./volume-name.ts";

const VOLUME = /^(?<kind>vm|base)-(?<vmid>[1-9]\d*)-[a-zA-Z0-9+_.-]+$/;
/** As LVM takes them; the names of its own parts are not for us. */
const LVM_NAME = /^[a-zA-Z0-9+_.][a-zA-Z0-9+_.-]*$/;
const MAX_NAME = 127;

export function parseLvmVolume(volname: string): VolumeName | undefined {
  const { kind, vmid = "" } = VOLUME.exec(volname)?.groups ?? {};
  if (kind === undefined || volname.length > MAX_NAME) return undefined;
  return { type: "images", name: volname, vmid: Number(vmid), isBase: kind === "base", format: "raw" };
}

export function requireLvmVolume(volname: string): VolumeName {
  const parsed = parseLvmVolume(volname);
  if (parsed !== undefined) return parsed;
  throw storageRefused(`unable to parse lvm volume name '${volname}'`);
}

/** Name of a volume group or a thin pool, which become parts of paths and arguments. */
export function requireLvmName(name: string, what: string): string {
  if (LVM_NAME.test(name) && name !== "." && name !== ".." && name.length <= MAX_NAME) return name;
  throw storageRefused(`${what} '${name}' is no name that LVM takes`);
}

export function lvmSnapshotName(volname: string, snapshot: string): string {
  return `snap_${volname}_${snapshot}`;
}

/** The snapshot's own name, where the logical volume is one of this volume. */
export function lvmSnapshotOf(volname: string, logical: string): string | undefined {
  const prefix = lvmSnapshotName(volname, "");
  const name = logical.startsWith(prefix) ? logical.slice(prefix.length) : "";
  // Names of snapshots begin with a letter: "disk-1_a" is none of "disk-1".
  return /^[a-zA-Z][a-zA-Z0-9_-]*$/.test(name) ? name : undefined;
}
