// What a QEMU knows, by the version that brought it. An option the host's QEMU lacks is left out of the command line.
import { atLeast, parseVersion } from "./versions.ts";

export const FEATURE_SINCE = {
  "reconnect-ms": [9, 2],
  "host-tunnel": [10, 2],
  "named-threads": [11, 0],
  "free-page-reporting": [5, 1],
  "packed-queues": [4, 2],
  "cet-flags": [11, 0],
  "vmx-mbec": [11, 0],
  "guest-phys-bits": [9, 1],
  "viommu-aw-bits": [9, 1],
  "discard-no-unref": [8, 1],
  "hpet-flag": [6, 0],
  "sev-snp": [9, 1],
  tdx: [10, 1],
} as const satisfies Record<string, readonly [number, number]>;

export type QemuFeature = keyof typeof FEATURE_SINCE;

/** Features of a QEMU by its version; a build that lacks some names them in `without`. */
export function featuresOf(
  qemuVersion: string,
  without: readonly QemuFeature[] = [],
): ReadonlySet<QemuFeature> {
  const version = parseVersion(qemuVersion);
  const features = new Set<QemuFeature>();
  for (const [name, [major, minor]] of Object.entries(FEATURE_SINCE) as [
    QemuFeature,
    readonly [number, number],
  ][]) {
    if (version !== undefined && atLeast(version, major, minor) && !without.includes(name))
      features.add(name);
  }
  return features;
}
