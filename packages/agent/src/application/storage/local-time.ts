// Civil time of this node: backups are named in it, and days and weeks of keep-* rules are counted in it.
import type { CivilTime } from "@gpve/domain/calendar/civil-time.ts";
import { parseBackupName } from "@gpve/domain/storage/backup-name.ts";
import type { CivilHour } from "@gpve/domain/storage/prune.ts";

export function civilTime(seconds: number): CivilHour {
  const at = new Date(seconds * 1000);
  return { year: at.getFullYear(), month: at.getMonth() + 1, day: at.getDate(), hour: at.getHours() };
}

/** When a backup was made, by its name. */
export function backupTime(fileName: string): number | undefined {
  const time = parseBackupName(fileName)?.time;
  if (time === undefined) return undefined;
  return secondsOf(time);
}

/** Of a name's time, which is this node's. */
export function secondsOf({ year, month, day, hour, minute, second }: CivilTime): number {
  return Math.floor(new Date(year, month - 1, day, hour, minute, second).getTime() / 1000);
}
