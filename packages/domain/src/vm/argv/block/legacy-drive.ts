// The `-drive` form, which PVE keeps for machine versions before 10.0. Only the `pve` dialect uses it.
import { refused } from "../../../request/failures.ts";
import type { Drive } from "../../config/property-types.ts";
import { isCdrom } from "../../config/drive.ts";
import { aioMode, detectZeroes, throttleLimits, usesDirectCache, type BlockContext } from "./block-node.ts";
import type { ResolvedVolume } from "../command-input.ts";

export function legacyDrive(
  context: BlockContext,
  key: string,
  drive: Drive,
  volume: ResolvedVolume | undefined,
  readOnly: boolean,
): string {
  if (volume?.storage?.snapshotAsVolumeChain === true && volume.format === "qcow2") {
    throw refused(
      `storage for '${drive.file}' is configured for snapshots as a volume chain - this requires QEMU machine version >= 10.0. See https://pve.proxmox.com/wiki/QEMU_Machine_Version_Upgrade`,
    );
  }
  const parts = [`if=none,id=drive-${key}`];
  for (const name of ["media", "cache", "rerror", "werror", "discard"] as const) {
    if (drive[name] !== undefined) parts.push(`${name}=${drive[name]}`);
  }
  if (drive.snapshot !== undefined) parts.push(`snapshot=${drive.snapshot ? "on" : "off"}`);
  if (drive.ro !== undefined) parts.push(`readonly=${drive.ro ? "on" : "off"}`);
  parts.push(...throttling(drive));
  if (volume !== undefined) parts.push(`format=${volume.format}`);
  const direct = usesDirectCache(drive, volume);
  if (drive.cache === undefined && direct) parts.push("cache=none");
  parts.push(`aio=${aioMode(drive, volume, direct, context.ioUring)}`);
  if (!isCdrom(drive)) parts.push(`detect-zeroes=${detectZeroes(drive)}`);
  if (readOnly) parts.push("readonly=on");
  const path = volume === undefined ? "" : `file=${legacyPath(volume)},`;
  return `${path}${parts.join(",")}`;
}

export function legacyPath(volume: ResolvedVolume): string {
  return volume.legacyPath ?? volume.node.filename ?? "";
}

function throttling(drive: Drive): string[] {
  return Object.entries(throttleLimits(drive)).map(([name, value]) => `throttling.${name}=${value}`);
}
