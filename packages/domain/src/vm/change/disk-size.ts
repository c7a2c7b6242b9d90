// Sizes of disks as requests say them.
import { refused } from "../../request/failures.ts";

const UNITS: Readonly<Record<string, number>> = {
  "": 1,
  K: 1024,
  M: 1024 ** 2,
  G: 1024 ** 3,
  T: 1024 ** 4,
};

/** `STORAGE:32`: a new disk of so many GiB. */
export const NEW_DISK = /^(?:([^/:\s]+):)?(\d+(?:\.\d+)?)$/;

export const TPM_STATE_BYTES = 4 * 1024 * 1024;

/** "+5G", "20G", "21474836480" of a disk that has `now` bytes. As PVE, whole KiB. */
export function wantedBytes(text: string, now: number): number {
  const match = /^(\+?)(\d+(?:\.\d+)?)([KMGT]?)$/.exec(text);
  if (match === null) throw refused(`unable to parse size '${text}'`);
  const bytes = Number(match[2]) * (UNITS[match[3] ?? ""] ?? 1) + (match[1] === "+" ? now : 0);
  return Math.ceil(bytes / 1024) * 1024;
}

/** Of a new disk that was asked for with so many bytes. */
export function newDiskBytes(key: string, asked: number): number {
  if (key === "tpmstate0") return TPM_STATE_BYTES;
  return Math.max(1024 * 1024, Math.round(asked / 1024) * 1024);
}
