// QEMU's three monitors: commands, events, and one for the supervisor, which passes descriptors of new network cards.
// QEMU gets them as listening descriptors: the sockets are there before it starts, and it cannot replace them.
import type { GuestFolder } from "./guest-folder.ts";

export const MONITORS = [
  { name: "qmp", fd: 10 },
  { name: "qmp-event", fd: 11 },
  { name: "qmp-fd", fd: 12 },
] as const;

/** Descriptors from here on are the caller's: taps, vhost, sockets. */
export const FIRST_FREE_FD = 32;

export function monitorArgs(): string[] {
  return MONITORS.flatMap(({ name, fd }) => [
    "-chardev",
    `socket,id=${name},fd=${fd},server=on,wait=off`,
    "-mon",
    `chardev=${name},mode=control`,
  ]);
}

export function monitorSockets(folder: GuestFolder): { path: string; fd: number }[] {
  return MONITORS.map(({ name, fd }) => ({ path: folder.socket(name), fd }));
}
