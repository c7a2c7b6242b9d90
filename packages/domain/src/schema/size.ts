const UNITS: Readonly<Record<string, number>> = { K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 };

/** Bytes of a PVE size such as `32G`, `1.5T`, `528K` or `1024` (plain bytes); undefined when it is none. */
export function parseSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)([KMGT](?:iB)?)?$/.exec(text);
  if (match === null) return undefined;
  const unit = match[2] === undefined ? 1 : (UNITS[match[2].charAt(0)] ?? 1);
  const bytes = Math.trunc(Number(match[1]) * unit);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** A size in the largest unit that states it exactly: 34359738368 -> `32G`, 1000 -> `1000`. */
export function formatSize(bytes: number): string {
  let value = Math.trunc(bytes);
  let unit = "";
  for (const next of ["K", "M", "G", "T"]) {
    if (value === 0 || value % 1024 !== 0) break;
    value /= 1024;
    unit = next;
  }
  return `${value}${unit}`;
}
