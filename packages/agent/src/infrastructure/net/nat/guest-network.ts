// The network a fresh host gets. `up` makes it, `down --guests` takes it away.
import { writeFileSync } from "node:fs";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { NatBridge, type NatBridgeOptions } from "./nat-bridge.ts";

/** Where its DHCP server writes down what it gave. */
export function guestLeaseFile(data: DataDir, bridge = "vmbr0"): string {
  return data.file("run", "net", `${bridge}.leases`);
}

export function guestNetwork(
  data: DataDir,
  options: Partial<Pick<NatBridgeOptions, "bridge" | "besideOthers" | "exec" | "clock">> = {},
): NatBridge {
  return new NatBridge({
    ...options,
    instanceId: data.instanceId,
    runFolder: data.file("run", "net"),
    enableForwarding: () => writeFileSync("/proc/sys/net/ipv4/ip_forward", "1\n"),
  });
}
