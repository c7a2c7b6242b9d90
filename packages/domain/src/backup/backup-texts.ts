// Figures as a backup's log shows them.
import { inByteUnits } from "@gpve/contracts/byte-units.ts";
import type { CivilTime } from "../calendar/civil-time.ts";

/** "3.9 GiB" */
export function bytesText(bytes: number, digits = 2): string {
  const [amount, unit] = inByteUnits(bytes);
  return `${amount.toFixed(digits)} ${unit}`;
}

/** "3.9 GiB/s"; what stands still has no digits. */
export function speedText(bytesPerSecond: number): string {
  return bytesPerSecond <= 0 ? "0 B/s" : `${bytesText(Math.floor(bytesPerSecond), 1)}/s`;
}

/** "12MB", "1.50GB": the size of an archive. */
export function archiveSizeText(bytes: number): string {
  const kib = bytes / 1024;
  if (kib < 1024) return `${Math.floor(kib)}KB`;
  const mib = kib / 1024;
  if (mib < 1024) return `${Math.floor(mib)}MB`;
  const gib = mib / 1024;
  return gib < 1024 ? `${gib.toFixed(2)}GB` : `${(gib / 1024).toFixed(2)}TB`;
}

/** "01:02:03" */
export function clockText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  return [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60].map(two).join(":");
}

/** "1w 2d 3h 4m 5s", without what is zero. */
export function durationText(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  const parts = [
    [Math.floor(seconds / 604_800), "w"],
    [Math.floor(seconds / 86_400) % 7, "d"],
    [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "m"],
    [seconds % 60, "s"],
  ] as const;
  const shown = parts.filter(([value]) => value > 0).map(([value, unit]) => `${value}${unit}`);
  return shown.length === 0 ? "0s" : shown.join(" ");
}

/** "2026-01-31 23:59:00" */
export function momentText({ year, month, day, hour, minute, second }: CivilTime): string {
  return `${year}-${two(month)}-${two(day)} ${[hour, minute, second].map(two).join(":")}`;
}

function two(value: number): string {
  return String(value).padStart(2, "0");
}
