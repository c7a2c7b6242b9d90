// Civil time of this node: backups are named in it, and days and weeks of keep-* rules are counted in it.
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import type { CivilTime } from "@gpve/domain/storage/prune.ts";

export function civilTime(seconds: number): CivilTime {
  const at = new Date(seconds * 1000);
  return { year: at.getFullYear(), month: at.getMonth() + 1, day: at.getDate(), hour: at.getHours() };
}

/** When a backup was made, by its name. */
export function backupTime(fileName: string): number | undefined {
  const time = parseBackupName(fileName)?.time;
  if (time === undefined) return undefined;
  const { year, month, day, hour, minute, second } = time;
  return Math.floor(new Date(year, month - 1, day, hour, minute, second).getTime() / 1000);
}
