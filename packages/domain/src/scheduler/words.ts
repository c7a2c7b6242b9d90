// Figures as people read them.
import { inByteUnits } from "@gpve/contracts/byte-units.ts";

export function roomText(bytes: number): string {
  const [amount, unit] = inByteUnits(bytes);
  return `${round(amount)} ${unit}`;
}

export function round(value: number): number {
  return Math.round(value * 10) / 10;
}

/** n1, n2, n3 and 4 more. */
export function listText(names: readonly string[], most = 3): string {
  if (names.length <= most) return names.join(", ");
  return `${names.slice(0, most).join(", ")} and ${names.length - most} more`;
}
