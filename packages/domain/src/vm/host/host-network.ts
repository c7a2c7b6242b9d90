// Which QEMU needs the host's network namespace. Every other one gets an empty namespace: its taps are descriptors, its
// consoles, monitors and helpers unix sockets.
import type { ProtocolNode } from "../argv/command-input.ts";
import type { VmValues } from "../config/vm-config.ts";

/** In the words of docs/reference/guest-isolation.md. */
export const HOST_NETWORK_REASONS = {
  args: "its configuration has `args`, which may name any back end",
  networkDisk: "it has a disk that QEMU itself reaches over the network",
} as const;

export type HostNetworkReason = keyof typeof HOST_NETWORK_REASONS;

const LOCAL_DRIVERS: ReadonlySet<string> = new Set(["file", "host_device", "host_cdrom"]);

export function hostNetworkReason(
  values: VmValues,
  disks: Iterable<ProtocolNode>,
): HostNetworkReason | undefined {
  if ((values["args"] ?? "").trim() !== "") return "args";
  return [...disks].some((disk) => !isLocal(disk)) ? "networkDisk" : undefined;
}

/** What is read through a unix socket is a file, whatever protocol is spoken there. */
function isLocal({ driver, server }: ProtocolNode): boolean {
  if (LOCAL_DRIVERS.has(driver)) return true;
  return typeof server === "object" && server !== null && (server as { type?: unknown }).type === "unix";
}
