/** The names alone; what leads from one to another is domain's table. */
export const VC_PHASES = [
  "Pending",
  "Provisioning",
  "Initializing",
  "Running",
  "Upgrading",
  "Scaling",
  "Migrating",
  "Stopping",
  "Stopped",
  "Failed",
  "Terminating",
] as const;

export type VcPhase = (typeof VC_PHASES)[number];
