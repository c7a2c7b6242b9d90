import { conflict } from "@gpve/domain/request/failures.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";

/** Where disks are moved, PVE says this in the words of its other configurations. */
export function requireUnmodified(config: VmConfig, digest: string | undefined, prefix = ""): void {
  if (digest === undefined || digest === "" || digest === config.digest) return;
  const message = "detected modified configuration - file changed by other user? Try again.";
  throw conflict(`${prefix}${message}`);
}
