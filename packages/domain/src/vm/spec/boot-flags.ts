// PVE's `boot: order=scsi0;net0` as a flag of the devices. The flags say which; the order is that of the document, and
// where PVE has another one it stands in `config.boot`.
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { printBootDevices, readBootDevices } from "../config/vm-properties.ts";

const NO_BOOT_DEVICE = /^(?:efidisk|tpmstate)/;

export interface Bootable {
  readonly name: string;
  readonly boot: boolean | undefined;
}

/** undefined: the key is missing, of the old kind with letters, or not readable. */
export function bootDevices(text: string | undefined): readonly string[] | undefined {
  try {
    const devices = readBootDevices(text);
    return devices === undefined || devices.length === 0 ? undefined : devices;
  } catch {
    return undefined;
  }
}

/** The value of `boot`; undefined = nothing is said about it. */
export function bootValue(devices: readonly Bootable[], configured: string | undefined): string | undefined {
  const said = devices.filter(({ boot }) => boot !== undefined);
  if (said.length === 0) return configured;
  const firmware = said.find(({ name, boot }) => boot === true && NO_BOOT_DEVICE.test(name));
  if (firmware !== undefined)
    throw invalidField(`spec.disks[${firmware.name}].boot`, "is true, but no machine boots from it");
  const chosen = said.filter(({ boot }) => boot === true).map(({ name }) => name);
  if (configured === undefined) {
    if (chosen.length > 0) return printBootDevices(chosen);
    throw invalidField(
      "spec.disks",
      "boot is false everywhere: say true where it shall boot from, or nothing",
    );
  }
  const names = new Set(devices.map(({ name }) => name));
  const order = (bootDevices(configured) ?? []).filter((name) => names.has(name));
  const wrong = said.find(({ name, boot }) => boot !== order.includes(name));
  if (wrong === undefined) return configured;
  throw invalidField(
    "spec.config.boot",
    `is '${configured}', but boot of ${wrong.name} is ${String(wrong.boot)}: say it once`,
  );
}
