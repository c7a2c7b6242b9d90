// The machine type that a VM gets for good when it is made, or becomes a Windows guest.
import { checkMachineOptions, FAMILY } from "../argv/machine/machine.ts";
import { parseVersion, pveRevisionOf, windowsVersion } from "../argv/machine/versions.ts";
import { printVmProperty, readVmProperty } from "../config/vm-properties.ts";

/**
 * Windows takes new hardware for another computer: its machine version is written down. Throws PVE's text on parts that
 * do not fit together; undefined = `machine` stays as it is.
 */
export function pinnedMachine(
  machine: string | undefined,
  ostype: string | undefined,
  qemuVersion: string,
): string | undefined {
  const options = machine === undefined ? {} : readVmProperty("machine", machine, "machine");
  checkMachineOptions(options);
  const family = FAMILY[options.type ?? "pc"];
  const version = parseVersion(qemuVersion);
  if (windowsVersion(ostype) === 0 || family === undefined || version === undefined || version.major === 0)
    return undefined;
  const revision = pveRevisionOf(version);
  const pin = `${version.major}.${version.minor}${revision > 0 ? `+pve${revision}` : ""}`;
  return printVmProperty("machine", { ...options, type: `${family}-${pin}` });
}
