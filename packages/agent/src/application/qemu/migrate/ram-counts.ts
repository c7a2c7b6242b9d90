// What QEMU counts while it sends RAM, and how much of it a guest may stand still for.
import type { MigrationInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";

export type Ram = NonNullable<MigrationInfo["ram"]>;

const MIB = 1024 ** 2;
/** A guest that is held at the end of a pass is held with so much left of it. */
export const NEAR = 4 * MIB;
/** What is sent in no time, however little was sent of late. */
const LEAST_BYTES = 2 * MIB;

/** How often QEMU has read its log of changed pages. */
export function syncsOf(ram: Ram | undefined): number {
  return Number(ram?.["dirty-sync-count"] ?? 0);
}

/** What was sent of memory that is not empty. */
export function fullBytesOf(ram: Ram): number {
  return Number(ram["normal-bytes"] ?? 0);
}

/** Changed since it was sent: so much may be sent while the guest stands still. */
export function lastBytes(mbps: number, lastMs: number): number {
  const bytesPerMs = (mbps * 1e6) / 8 / 1000;
  return Math.max(LEAST_BYTES, bytesPerMs * lastMs || 0);
}
