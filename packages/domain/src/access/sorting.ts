/** Plain byte-like order, the same on every machine and in every locale. */
export function byText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

export function sortedUnique(names: Iterable<string>): string[] {
  return [...new Set(names)].toSorted(byText);
}
