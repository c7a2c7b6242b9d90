// A guest's configuration file in memory, of whatever kind. Values stay text, normalised as PVE's reader does, so that
// what is written back equals what was read.

export type GuestValues = Readonly<Record<string, string>>;

export interface GuestConfig {
  /** SHA-1 of the text it was read from; empty for one made in memory. */
  readonly digest: string;
  /** The main section, `description` included. */
  readonly values: GuestValues;
  /** Changes waiting for the next start; `delete` lists keys to remove, `!key` with their volume. */
  readonly pending: GuestValues;
  /** Sections that only one kind has. */
  readonly special: Readonly<Record<string, GuestValues>>;
  readonly snapshots: Readonly<Record<string, GuestValues>>;
}

/** The values without some keys. */
export function without(values: GuestValues, ...keys: readonly string[]): GuestValues {
  if (!keys.some((key) => Object.hasOwn(values, key))) return values;
  return Object.fromEntries(Object.entries(values).filter(([key]) => !keys.includes(key)));
}

export function withSnapshot(config: GuestConfig, name: string, values: GuestValues): GuestConfig {
  return { ...config, snapshots: { ...config.snapshots, [name]: values } };
}

export function snapshotOf(config: GuestConfig, name: string): GuestValues | undefined {
  return Object.hasOwn(config.snapshots, name) ? config.snapshots[name] : undefined;
}
