// What the name of a volume says, whichever storage it lies on.
import type { VolumeType } from "./content.ts";
import { storageRefused } from "./failures.ts";

export interface VolumeName {
  readonly type: VolumeType;
  /** Without what the storage puts before it; of an OVA's member "x.ova/disk.vmdk". */
  readonly name: string;
  readonly vmid?: number;
  /** What a linked clone builds on. */
  readonly base?: { readonly vmid: number; readonly name: string };
  readonly isBase: boolean;
  /** "raw" for everything that is no disk image; "ova+vmdk" for a disk inside an OVA. */
  readonly format: string;
}

/**
 * Whose name says base image is trusted as one: it was looked at when it became read-only. So nobody chooses such a name,
 * whatever the case of its letters, which some file systems do not tell apart.
 */
export function refuseBaseName(name: string, vmid: number): void {
  if (/^base-/i.test(name)) throw storageRefused(`illegal name '${name}' - should be 'vm-${vmid}-*'`);
}

const MAX_DISKS = 1024;

/** vm-100-disk-N.qcow2 with the lowest N that no name in use has, whatever its extension. */
export function freeDiskName(
  vmid: number,
  inUse: Iterable<string>,
  suffix: string,
  prefix: "vm" | "base" | "subvol" = "vm",
  storage = "",
): string {
  const taken = new Set<number>();
  const pattern = new RegExp(`^(?:vm|base|subvol|basevol)-${vmid}-disk-(\\d+)(?:\\.|$)`);
  for (const name of inUse) {
    const number = pattern.exec(name)?.[1];
    if (number !== undefined) taken.add(Number(number));
  }
  for (let number = 0; number < MAX_DISKS; number++) {
    if (!taken.has(number)) return `${prefix}-${vmid}-disk-${number}${suffix}`;
  }
  throw storageRefused(`unable to allocate an image name for VM ${vmid} in storage '${storage}'`);
}

export function hasControl(name: string): boolean {
  for (let at = 0; at < name.length; at++) {
    const code = name.charCodeAt(at);
    if (code < 0x20 || code === 0x7f) return true;
  }
  return false;
}
