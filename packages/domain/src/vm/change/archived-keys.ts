// What a VM's configuration in an archive may bring along. Whoever can write the archive (the server of its storage, for
// one) chose it, and may change it after it was looked at; so what only root may set is taken from it for root alone, or
// where a VM that is there has the very same.
import { AppError } from "@gpve/contracts/errors.ts";
import { driveFile } from "../config/drive.ts";
import { isDriveKey, keyKind } from "../config/keys.ts";
import type { VmValues } from "../config/vm-config.ts";
import { privilegesForChange } from "./change-privileges.ts";

/** Keys by which a guest reaches the host, or another guest: programs, devices, files, shared memory. */
const REACHING = new Set(["args", "hookscript", "hostpci", "ivshmem", "parallel", "serial", "usb"]);

/** `known`: configurations in which somebody who might set it has set it. */
export function refuseReachingKeys(vmid: number, values: VmValues, known: readonly VmValues[]): void {
  for (const [key, value] of Object.entries(values)) {
    if (!reaches(vmid, key, value) || known.some((config) => config[key] === value)) continue;
    throw new AppError(
      "access.denied",
      `only root can set '${key}' config: the archive has '${key}: ${value}', which reaches the host; restore it as root@pam`,
      { pveStatus: 500 },
    );
  }
}

function reaches(vmid: number, key: string, value: string): boolean {
  if (isDriveKey(key)) return driveFile(value)?.startsWith("/") === true;
  if (!REACHING.has(keyKind(key))) return false;
  return privilegesForChange(key, { vmid, value, isNew: true }).kind === "root-only";
}
