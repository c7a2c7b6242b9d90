// What is written down of machines, so that they stay where and what they are.
import { given } from "@gpve/contracts/given.ts";
import type { Machine } from "../cluster/machine.ts";
import type { ClusterLock } from "./lock-file.ts";

type Pins = ClusterLock["machines"];

/** A machine that has an address may refuse another one: until it has that, the old one is what it is known by. */
export function pinnedMachines(known: Pins, machines: readonly Machine[], addresses: "kept" | "taken"): Pins {
  const own = machines.map((machine): [string, Pins[string]] => {
    const { name, provider, host, vmid, hostname } = machine;
    const old = addresses === "kept" ? known[name]?.addresses : undefined;
    const isKept = old !== undefined && old[0] !== machine.addresses[0];
    const named = given({ hostname: hostname === name ? undefined : hostname });
    return [name, { provider, host, vmid, addresses: [...(isKept ? old : machine.addresses)], ...named }];
  });
  return { ...known, ...Object.fromEntries(own) };
}
