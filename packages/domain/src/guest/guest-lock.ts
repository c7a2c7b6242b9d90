import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestConfig } from "./guest-config.ts";

export type GuestLock =
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

/** Refuses a guest that some other work holds. */
export function checkLock(config: GuestConfig): void {
  const lock = config.values["lock"];
  if (lock !== undefined)
    throw new AppError("resource.busy", `VM is locked (${lock})`, { pveStatus: 500, data: { lock } });
}

/** Takes the lock that is kept in the configuration, for work that outlasts one write. */
export function setLock(config: GuestConfig, lock: GuestLock): GuestConfig {
  checkLock(config);
  return { ...config, values: { ...config.values, lock } };
}

export function hasLock(config: GuestConfig, lock: GuestLock): boolean {
  return config.values["lock"] === lock;
}

export function isTemplate(config: GuestConfig): boolean {
  return config.values["template"] === "1";
}
