// Names of backup archives: vzdump-qemu-100-2024_01_31-23_59_00.vma.zst, and our incrementals (.gpvi.zst).
// The time in a name is local time of the node that wrote it; callers say how far that is from UTC.
import type { CivilTime } from "../calendar/civil-time.ts";
import type { GuestType } from "../guest/guest-kinds.ts";
import { guestTypes } from "../guest/guest-words.ts";

export interface BackupName {
  readonly fileName: string;
  readonly type: GuestType | "openvz" | "unknown";
  /** "vma.zst", "tar", "tgz", "gpvi": as lists show it. */
  readonly format: string;
  readonly container: "vma" | "tar" | "gpvi";
  readonly compression: "gz" | "lzo" | "zst" | "bz2" | undefined;
  /** Named as this software names its own backups; only those are pruned. */
  readonly standard: boolean;
  readonly vmid: number | undefined;
  /** Civil time as in the name. */
  readonly time: CivilTime | undefined;
}

/** Between bars, as patterns want them: those of the table, and what containers were before. */
export const BACKUP_TYPES = [...guestTypes, "openvz"].join("|");
const EXTENSION = /\.(tgz|(tar|vma)(?:\.(gz|lzo|zst|bz2))?|(gpvi)(?:\.(zst))?)$/;
/** Of the name without its extension: a name with something between them is not ours, so pruning leaves it alone. */
const STANDARD = new RegExp(
  `^vzdump-(${BACKUP_TYPES})-([1-9]\\d{2,8})-(\\d{4})_(\\d{2})_(\\d{2})-(\\d{2})_(\\d{2})_(\\d{2})$`,
);
const TYPED = new RegExp(`^vzdump-(${BACKUP_TYPES})-.`);
const ANY_VMID = /-([1-9]\d{2,8})-./;
/** Of a virtual cluster (vcluster/backup/archive-name.ts): numbers in it are no guest's. */
const OF_CLUSTER = /^vzdump-vc-[a-z]/;

/** undefined = no backup archive by its name. */
export function parseBackupName(fileName: string): BackupName | undefined {
  const extension = EXTENSION.exec(fileName);
  if (extension === null || fileName.includes("/") || extension.index === 0) return undefined;
  const [, format = "", plain, compressed, own, ownCompressed] = extension;
  const base = {
    fileName,
    format: own ?? format,
    container: format === "tgz" ? "tar" : ((plain ?? own) as "vma" | "tar" | "gpvi"),
    compression: (format === "tgz" ? "gz" : (compressed ?? ownCompressed)) as BackupName["compression"],
  } as const;
  const stem = fileName.slice(0, extension.index);
  const standard = STANDARD.exec(stem);
  if (standard === null) {
    const type = (TYPED.exec(stem)?.[1] ?? "unknown") as BackupName["type"];
    return { ...base, type, standard: false, vmid: anyVmid(stem), time: undefined };
  }
  const numbers = standard.slice(2).map(Number);
  const [vmid = 0, year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = numbers;
  const time = { year, month, day, hour, minute, second };
  // A day that no calendar has: the name says nothing of its content that could be believed.
  if (!exists(time)) return { ...base, type: "unknown", standard: false, vmid, time: undefined };
  return { ...base, type: standard[1] as GuestType | "openvz", standard: true, vmid, time };
}

/** Whether a name belongs to a guest when somebody asks for that guest's backups. */
export function namesGuest(fileName: string, vmid: number): boolean {
  return !OF_CLUSTER.test(fileName) && new RegExp(`\\S-${vmid}-\\S`).test(fileName);
}

function anyVmid(stem: string): number | undefined {
  const vmid = OF_CLUSTER.test(stem) ? undefined : ANY_VMID.exec(stem)?.[1];
  return vmid === undefined ? undefined : Number(vmid);
}

function exists({ year, month, day, hour, minute, second }: NonNullable<BackupName["time"]>): boolean {
  if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59) return false;
  return day >= 1 && day <= new Date(Date.UTC(year, month, 0)).getUTCDate();
}

/** Name of a new archive, without its extension. */
export function backupBaseName(type: GuestType, vmid: number, time: NonNullable<BackupName["time"]>): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const date = `${String(time.year).padStart(4, "0")}_${two(time.month)}_${two(time.day)}`;
  return `vzdump-${type}-${vmid}-${date}-${two(time.hour)}_${two(time.minute)}_${two(time.second)}`;
}

/** `.log` belongs to the archive that the backup made, not to copies under other names; `.notes` to each archive. */
export function logNameOf(fileName: string): string | undefined {
  if (parseBackupName(fileName)?.standard !== true) return undefined;
  return `${fileName.replace(EXTENSION, "")}.log`;
}

export const NOTES_SUFFIX = ".notes";
export const PROTECTED_SUFFIX = ".protected";
/** First line: file name of the archive that an incremental one builds on. */
export const PARENT_SUFFIX = ".parent";
