// A VM's configuration file in memory: a guest's, whose special sections are `cloudinit` (what the drive was last made
// from) and `fleecing`. The typed view of a value is vm-properties.ts.
import type { GuestConfig, GuestValues } from "../../guest/guest-config.ts";

export type VmValues = GuestValues;
export type VmConfig = GuestConfig;

export const emptyVmConfig: VmConfig = { digest: "", values: {}, pending: {}, special: {}, snapshots: {} };
