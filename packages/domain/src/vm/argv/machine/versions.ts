// Versions of QEMU machines. `+pveN` counts PVE's own layout changes on top of one QEMU machine version.

export interface Version {
  readonly major: number;
  readonly minor: number;
  readonly pve: number;
}

/** Highest `+pveN` known per machine version; a version that is not here has none. */
export const PVE_REVISIONS: Readonly<Record<string, number>> = {
  // More SCSI disks, RNG device.
  "4.1": 2,
  // ACPI sleep states off.
  "9.2": 1,
  // host_mtu always set.
  "10.0": 1,
  // Tunnel offload of NICs off; enlightened VMCS for Windows guests on Intel.
  "11.0": 2,
};

/** Reads `7.2.22` or `10.0+pve1`; undefined for anything else. */
export function parseVersion(text: string): Version | undefined {
  const match = /^(\d+)\.(\d+)(?:\.\d+)*(?:\+pve(\d+))?/.exec(text);
  if (match === null) return undefined;
  return { major: Number(match[1]), minor: Number(match[2]), pve: Number(match[3] ?? 0) };
}

export function atLeast(version: Version, major: number, minor: number, pve = 0): boolean {
  if (version.major !== major) return version.major > major;
  if (version.minor !== minor) return version.minor > minor;
  return version.pve >= pve;
}

export function pveRevisionOf(version: Version): number {
  return PVE_REVISIONS[`${version.major}.${version.minor}`] ?? 0;
}

/** A release candidate carries its number as a patch level of 90 and more. */
export function isReleaseCandidate(qemuVersion: string): boolean {
  return Number(/^\d+\.\d+\.(\d+)/.exec(qemuVersion)?.[1] ?? 0) >= 90;
}

/** `win11` -> 11, `w2k8` -> 6; 0 when the guest is no Windows. */
export function windowsVersion(ostype: string | undefined): number {
  if (ostype === undefined) return 0;
  if (["wxp", "w2k3", "w2k"].includes(ostype)) return 5;
  if (["w2k8", "wvista"].includes(ostype)) return 6;
  return Number(/^win(\d+)$/.exec(ostype)?.[1] ?? 0);
}
