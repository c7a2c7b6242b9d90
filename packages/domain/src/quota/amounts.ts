// How much of what: the numbers that quotas bound. One flat list of counters, so that adding, comparing and explaining
// know no resource by name. Memory and storage are bytes, cpu is cores, the rest are counts.

export const RESOURCES = [
  "cpu",
  "memory",
  "storage",
  "vmCount",
  "ctCount",
  "vcCount",
  "gpuCount",
  "snapshots",
  "backups",
] as const;

export type Resource = (typeof RESOURCES)[number];

/** `storage/local` is what of all storage lies on that one. */
export type ResourceKey = Resource | `storage/${string}`;

/** What is not named is 0. */
export type Amounts = Readonly<Partial<Record<ResourceKey, number>>>;

export const NOTHING: Amounts = {};

export function add(...all: readonly Amounts[]): Amounts {
  return merge(all, (a, b) => a + b);
}

/** The larger of each. */
export function most(...all: readonly Amounts[]): Amounts {
  return merge(all, Math.max);
}

/** What `after` has more of than `before`; what it has less of is no part of it. */
export function growth(before: Amounts, after: Amounts): Amounts {
  const grown = keysOf(after).map((key) => [key, amountOf(after, key) - amountOf(before, key)] as const);
  return Object.fromEntries(grown.filter(([, more]) => more > 0));
}

export function amountOf(amounts: Amounts, key: ResourceKey): number {
  return amounts[key] ?? 0;
}

export function keysOf(amounts: Amounts): readonly ResourceKey[] {
  return Object.keys(amounts) as ResourceKey[];
}

export function storageKey(storage: string): ResourceKey {
  return `storage/${storage}`;
}

/** Bytes on one storage, counted there and in all. */
export function bytesOn(storage: string, bytes: number): Amounts {
  return bytes === 0 ? NOTHING : { storage: bytes, [storageKey(storage)]: bytes };
}

function merge(all: readonly Amounts[], join: (a: number, b: number) => number): Amounts {
  const sums: Partial<Record<ResourceKey, number>> = {};
  for (const amounts of all)
    for (const key of keysOf(amounts)) sums[key] = join(sums[key] ?? 0, amountOf(amounts, key));
  return sums;
}
