// Sockets that a guest serves, as listening descriptors: they are there before it starts, and it cannot replace them.
import { dirname } from "node:path";
import { FREE_DESCRIPTORS } from "@gpve/domain/guest/guest-processes.ts";
import type { GuestFolder } from "./guest-folder.ts";

/** Where QEMU finds its monitors. */
export const MONITORS = [
  { name: "qmp", fd: 10 },
  { name: "qmp-event", fd: 11 },
  { name: "qmp-fd", fd: 12 },
] as const;

/** Sockets found in the arguments come after everything that whoever starts the guest may hand over. */
const FIRST_SOCKET_FD = FREE_DESCRIPTORS.end;

/**
 * Character devices that listen in the guest's folder (`-chardev socket,id=…,path=…,server=on`): QEMU cannot reach
 * that folder, so they are opened for it and its arguments name the descriptor instead.
 */
export function handOverSockets(
  args: readonly string[],
  folder: GuestFolder,
): { readonly args: string[]; readonly sockets: { path: string; fd: number }[] } {
  const sockets: { path: string; fd: number }[] = [];
  const rewritten = args.map((arg, index) => {
    if (args[index - 1] !== "-chardev") return arg;
    const parts: readonly string[] = arg.match(/(?:[^,]|,,)+/g) ?? [];
    const at = parts.findIndex((part) => part.startsWith("path="));
    const path = parts[at]?.slice("path=".length).replaceAll(",,", ",");
    if (parts[0] !== "socket" || !parts.includes("server=on")) return arg;
    if (path === undefined || dirname(path) !== folder.path) return arg;
    const fd =
      MONITORS.find(({ name }) => folder.socket(name) === path)?.fd ?? FIRST_SOCKET_FD + sockets.length;
    sockets.push({ path, fd });
    return parts.with(at, `fd=${fd}`).join(",");
  });
  return { args: rewritten, sockets };
}
