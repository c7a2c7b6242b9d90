import { AppError } from "@gpve/contracts/errors.ts";
import type { VmConfig } from "./vm-config.ts";

export type VmLock =
  | "backup"
  | "clone"
  | "create"
  | "destroyed"
  | "import"
  | "migrate"
  | "rollback"
  | "snapshot"
  | "snapshot-delete"
  | "suspended"
  | "suspending";

/** Refuses a VM that some other work holds. */
export function checkLock(config: VmConfig): void {
  const lock = config.values["lock"];
  if (lock !== undefined)
    throw new AppError("resource.busy", `VM is locked (${lock})`, { pveStatus: 500, data: { lock } });
}

/** Takes the lock that is kept in the configuration, for work that outlasts one write. */
export function setLock(config: VmConfig, lock: VmLock): VmConfig {
  checkLock(config);
  return { ...config, values: { ...config.values, lock } };
}

export function hasLock(config: VmConfig, lock: VmLock): boolean {
  return config.values["lock"] === lock;
}

export function isTemplate(config: VmConfig): boolean {
  return config.values["template"] === "1";
}
