const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"] as const;

/** How many of which unit; one is left for the next at `most`. */
export function inByteUnits(bytes: number, most = 1024): readonly [amount: number, unit: string] {
  let [amount, at] = [bytes, 0];
  while (amount >= most && at < UNITS.length - 1) [amount, at] = [amount / 1024, at + 1];
  return [amount, UNITS[at] ?? ""];
}
