// Guests of another architecture than the host's: emulated, by a QEMU of their own.
import { refused } from "../../../request/failures.ts";
import type { VmValues } from "../../config/vm-config.ts";
import type { ForeignQemu, GuestArch, HostFacts } from "../host-facts.ts";
import { featuresOf } from "../machine/qemu-features.ts";

/** Debian's. */
const PACKAGES: Readonly<Record<GuestArch, string>> = {
  x86_64: "qemu-system-x86",
  aarch64: "qemu-system-arm",
};

export function guestArch(values: VmValues, host: Pick<HostFacts, "arch">): GuestArch {
  // A template starts only for backups: its disks are read by any QEMU.
  const asked = values["template"] === "1" ? undefined : values["arch"];
  return (asked as GuestArch | undefined) ?? host.arch;
}

/** The facts of a host as they are for this guest. Throws where the host has no QEMU for it. */
export function factsFor(values: VmValues, host: HostFacts): HostFacts {
  const qemu = foreignQemu(values, host);
  if (qemu === undefined) return host;
  const { spice, ...rest } = host;
  return {
    ...rest,
    qemuVersion: qemu.version,
    features: featuresOf(qemu.version),
    machineTypes: qemu.machineTypes,
    ...(spice === undefined || !qemu.spice ? {} : { spice }),
  };
}

/** The program that runs this guest. */
export function qemuBinaryFor(values: VmValues, host: HostFacts, native: string): string {
  return foreignQemu(values, host)?.binary ?? native;
}

function foreignQemu(values: VmValues, host: HostFacts): ForeignQemu | undefined {
  const arch = guestArch(values, host);
  if (arch === host.arch) return undefined;
  const qemu = host.foreignQemus?.[arch];
  if (qemu === undefined)
    throw refused(
      `node '${host.nodeName}' has no qemu-system-${arch}, which guests with arch=${arch} need: apt-get install ${PACKAGES[arch]}`,
    );
  return qemu;
}
