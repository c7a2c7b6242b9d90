/** The names alone; what leads from one to another is domain's table. */
export const VM_PHASES = [
  "Pending",
  "Creating",
  "Stopped",
  "Starting",
  "Running",
  "Stopping",
  "Paused",
  "Migrating",
  "Snapshotting",
  "Rebooting",
  "Deleting",
  "Failed",
] as const;

export type VmPhase = (typeof VM_PHASES)[number];
