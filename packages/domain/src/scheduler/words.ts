// Figures as people read them.

export function bytesText(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let [value, unit] = [bytes, 0];
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${round(value)} ${units[unit] ?? ""}`;
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** n1, n2, n3 and 4 more. */
export function listText(names: readonly string[], most = 3): string {
  if (names.length <= most) return names.join(", ");
  return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
}
