// Names of backup archives: vzdump-qemu-100-2024_01_31-23_59_00.vma.zst, and our incrementals (.gpvi.zst).
// The time in a name is local time of the node that wrote it; callers say how far that is from UTC.

export interface BackupName {
  readonly fileName: string;
  readonly type: "qemu" | "lxc" | "openvz" | "unknown";
  /** "vma.zst", "tar", "tgz", "gpvi": as lists show it. */
  readonly format: string;
  readonly container: "vma" | "tar" | "gpvi";
  readonly compression: "gz" | "lzo" | "zst" | "bz2" | undefined;
  /** Named as this software names its own backups; only those are pruned. */
  readonly standard: boolean;
  readonly vmid: number | undefined;
  /** Civil time as in the name. */
  readonly time:
    | {
        readonly year: number;
        readonly month: number;
        readonly day: number;
        readonly hour: number;
        readonly minute: number;
        readonly second: number;
      }
    | undefined;
}

const EXTENSION = /\.(tgz|(tar|vma)(?:\.(gz|lzo|zst|bz2))?|(gpvi)(?:\.(zst))?)$/;
const STANDARD =
  /^vzdump-(lxc|openvz|qemu)-([1-9]\d{2,8})-(\d{4})_(\d{2})_(\d{2})-(\d{2})_(\d{2})_(\d{2})\.[a-z.0-9]+$/;
const TYPED = /^vzdump-(lxc|openvz|qemu)-/;
const ANY_VMID = /-([1-9]\d{2,8})-/;

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
  const standard = STANDARD.exec(fileName);
  if (standard === null) {
    const vmid = ANY_VMID.exec(fileName)?.[1];
    const type = (TYPED.exec(fileName)?.[1] ?? "unknown") as BackupName["type"];
    return {
      ...base,
      type,
      standard: false,
      vmid: vmid === undefined ? undefined : Number(vmid),
      time: undefined,
    };
  }
  const numbers = standard.slice(2).map(Number);
  const [vmid = 0, year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = numbers;
  return {
    ...base,
    type: standard[1] as "lxc" | "openvz" | "qemu",
    standard: true,
    vmid,
    time: { year, month, day, hour, minute, second },
  };
}

/** Name of a new archive, without its extension. */
export function backupBaseName(
  type: "qemu" | "lxc",
  vmid: number,
  time: NonNullable<BackupName["time"]>,
): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const date = `${String(time.year).padStart(4, "0")}_${two(time.month)}_${two(time.day)}`;
  return `vzdump-${type}-${vmid}-${date}-${two(time.hour)}_${two(time.minute)}_${two(time.second)}`;
}

/** `.log` belongs to all archives of one backup, `.notes` and `.protected` to one archive. */
export function logNameOf(fileName: string): string | undefined {
  const base = /^(vzdump-\w+-\d+-\d{4}_\d{2}_\d{2}-\d{2}_\d{2}_\d{2})/.exec(fileName)?.[1];
  return base === undefined ? undefined : `${base}.log`;
}

export const NOTES_SUFFIX = ".notes";
export const PROTECTED_SUFFIX = ".protected";
/** First line: file name of the archive that an incremental one builds on. */
export const PARENT_SUFFIX = ".parent";
