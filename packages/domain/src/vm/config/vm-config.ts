// A VM's configuration file in memory. Values stay text, normalised as PVE's reader does, so that what is written
// back equals what was read. The typed view of a value is vm-properties.ts.

export type VmValues = Readonly<Record<string, string>>;

export interface VmConfig {
  /** SHA-1 of the text it was read from; empty for one made in memory. */
  readonly digest: string;
  /** The main section, `description` included. */
  readonly values: VmValues;
  /** Changes waiting for the next start; `delete` lists keys to remove, `!key` with their volume. */
  readonly pending: VmValues;
  /** `cloudinit` (what the drive was last made from) and `fleecing`. */
  readonly special: Readonly<Record<string, VmValues>>;
  readonly snapshots: Readonly<Record<string, VmValues>>;
}

export const emptyVmConfig: VmConfig = { digest: "", values: {}, pending: {}, special: {}, snapshots: {} };

/** The values without some keys. */
export function without(values: VmValues, ...keys: readonly string[]): VmValues {
  if (!keys.some((key) => Object.hasOwn(values, key))) return values;
  return Object.fromEntries(Object.entries(values).filter(([key]) => !keys.includes(key)));
}

export function withSnapshot(config: VmConfig, name: string, values: VmValues): VmConfig {
  return { ...config, snapshots: { ...config.snapshots, [name]: values } };
}

export function snapshotOf(config: VmConfig, name: string): VmValues | undefined {
  return Object.hasOwn(config.snapshots, name) ? config.snapshots[name] : undefined;
}
