import { join } from "node:path";
import type { GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestPaths } from "@gpve/domain/vm/argv/command-input.ts";

/** Ids of a guest's helper processes. They share its uid, so that it may use their sockets. */
export const helperIds = {
  tpm: (id: string): string => `${id}-tpm`,
  virtiofs: (id: string, index: number): string => `${id}-fs${index}`,
};

/** Where the command line finds everything of one guest. Sockets of helpers must be among the guest's `files`. */
export function commandPaths(
  guests: Pick<GuestProcesses, "placeOf">,
  id: string,
  binary: string,
): GuestPaths {
  const own = guests.placeOf(id);
  return {
    binary,
    qmp: own.socketPath("qmp"),
    qmpEvents: own.socketPath("qmp-event"),
    qmpDescriptors: own.socketPath("qmp-fd"),
    agent: own.socketPath("qga"),
    vnc: join(own.ioFolder, "vnc"),
    spice: join(own.ioFolder, "spice"),
    swtpm: join(guests.placeOf(helperIds.tpm(id)).ioFolder, "swtpm.sock"),
    efiVars: join(own.ioFolder, "efivars.fd"),
    serial: (index) => own.socketPath(`serial${index}`),
    virtiofs: (index) => join(guests.placeOf(helperIds.virtiofs(id, index)).ioFolder, "virtiofsd.sock"),
    sharedMemory: (name) => `/dev/shm/pve-shm-${name}`,
    hugepages: (sizeMiB) => `/run/hugepages/kvm/${sizeMiB * 1024}kB`,
  };
}
