// Drives as a request names them -> drives as they will be, as far as their size goes.
import type { Answers } from "../../quota/effects.ts";
import { parseVolumeId } from "../../storage/volume-id.ts";
import { NEW_DISK, newDiskBytes, TPM_STATE_BYTES } from "../change/disk-size.ts";
import { CLOUDINIT_DRIVE_BYTES } from "../cloudinit/cloudinit-drive.ts";
import { isCdrom, isCloudinitVolume, parseDrive, printDrive } from "../config/drive.ts";
import { isDriveKey } from "../config/keys.ts";
import type { Drive } from "../config/property-types.ts";
import type { VmValues } from "../config/vm-config.ts";

const GIB = 1024 ** 3;
/** No variable store of any firmware is larger. */
const MOST_EFI_BYTES = 4 * 1024 * 1024;

/** Volumes whose size the node must be asked for. `known`: those of the guest itself. */
export function unknownVolumes(set: VmValues, known: ReadonlyMap<string, number>): readonly string[] {
  return Object.entries(set).flatMap(([key, text]) => {
    if (/^unused\d+$/.test(key)) return known.has(text) ? [] : [text];
    const drive = isDriveKey(key) ? parseDrive(key, text) : undefined;
    if (drive === undefined) return [];
    const source = drive["import-from"];
    if (source !== undefined) return [source];
    const isThere = !NEW_DISK.test(drive.file) && !isNewCloudinit(drive) && !isCdrom(drive);
    return isThere && parseVolumeId(drive.file) !== undefined && !known.has(drive.file) ? [drive.file] : [];
  });
}

/** What is no drive, or none that the node would take, stays as it is. */
export function plannedValues(
  set: VmValues,
  known: ReadonlyMap<string, number>,
  { sizes }: Answers,
): VmValues {
  return Object.fromEntries(
    Object.entries(set).map(([key, text]) => {
      const drive = isDriveKey(key) ? parseDrive(key, text) : undefined;
      return [key, drive === undefined ? text : printDrive(key, planned(key, drive, known, sizes))];
    }),
  );
}

function planned(
  key: string,
  drive: Drive,
  known: ReadonlyMap<string, number>,
  sizes: Answers["sizes"],
): Drive {
  const { "import-from": source, size: _claimed, ...rest } = drive;
  const made = NEW_DISK.exec(drive.file);
  const storage = made?.[1] ?? parseVolumeId(drive.file)?.storage ?? "";
  const file = `${storage}:planned-${key}`;
  if (source !== undefined) return { ...rest, file, size: sizes[source] ?? 0 };
  if (isNewCloudinit(drive)) return { ...rest, file: `${storage}:cloudinit`, size: CLOUDINIT_DRIVE_BYTES };
  if (made !== null) return { ...rest, file, size: bytesOf(key, Number(made[2])) };
  return { ...rest, size: known.get(drive.file) ?? sizes[drive.file] ?? 0 };
}

function bytesOf(key: string, gib: number): number {
  if (key === "efidisk0") return MOST_EFI_BYTES;
  return key === "tpmstate0" ? TPM_STATE_BYTES : newDiskBytes(key, gib * GIB);
}

function isNewCloudinit({ file }: Drive): boolean {
  return isCloudinitVolume(file) && parseVolumeId(file)?.volname === "cloudinit";
}
