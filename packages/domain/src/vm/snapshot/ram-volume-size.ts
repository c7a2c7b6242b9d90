import type { VmValues } from "../config/vm-config.ts";
import { memoryMiB } from "../config/vm-properties.ts";

const MIB = 1024 * 1024;
/** Devices and what changes while it is written, beside the RAM itself. */
const STATE_MARGIN_MIB = 500;

/** Of the volume that a running guest's RAM is written to. */
export function ramVolumeBytes(values: VmValues): number {
  return (memoryMiB(values["memory"]) * 2 + STATE_MARGIN_MIB) * MIB;
}
