import { join } from "node:path";
import type { GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import { monitorPaths } from "@gpve/domain/vm/argv/machine/monitors.ts";
import type { GuestPaths } from "@gpve/domain/vm/argv/command-input.ts";

/** Where the command line finds everything of one guest. */
export function commandPaths(
  guests: Pick<GuestProcesses, "placeOf">,
  id: string,
  binary: string,
): GuestPaths {
  const own = guests.placeOf(id);
  return {
    binary,
    ...monitorPaths(own),
    agent: own.socketPath("qga"),
    vnc: join(own.ioFolder, "vnc"),
    spice: join(own.ioFolder, "spice"),
    swtpm: join(guests.placeOf(`${id}-tpm`).ioFolder, "swtpm"),
    efiVars: join(own.ioFolder, "efivars.fd"),
    serial: (index) => own.socketPath(`serial${index}`),
    virtiofs: (index) => join(guests.placeOf(`${id}-fs${index}`).ioFolder, "virtiofs"),
    sharedMemory: (name) => `/dev/shm/pve-shm-${name}`,
    hugepages: (sizeMiB) => `/run/hugepages/kvm/${sizeMiB * 1024}kB`,
  };
}
