// What VMs need of the host's network.
import type { NetDevice } from "./property-types.ts";
import type { VmValues } from "./vm-config.ts";
import { readVmProperty } from "./vm-properties.ts";

export interface HostBridge {
  /** The kernel's name; another than the configuration's where two data directories share a host. */
  readonly device: string;
  readonly mtu: number;
}

export interface VmNetwork {
  /** Why this host gives us no taps, in words; undefined = it does. */
  readonly tapsMissing?: string | undefined;
  /** Whether nobody listens at a port of 127.0.0.1. */
  isPortFree(port: number): Promise<boolean>;
  /** The bridge of a NIC; throws, saying why, when the NIC cannot be put on it. */
  bridge(key: string, net: NetDevice): Promise<HostBridge>;
  /** A name for the tap of a NIC that is about to come. */
  newTap(vmid: number, key: string): string;
  /** The name its tap has. */
  tapOf(vmid: number, key: string): string;
  /** Gives a tap its VLANs and rate. Returns what this host cannot enforce, in words. */
  configure(tap: string, net: NetDevice): Promise<readonly string[]>;
  attach(tap: string, bridge: string): Promise<void>;
}

export function readNet(key: string, text: string): NetDevice {
  return readVmProperty("net", text, key) as NetDevice;
}

/** NICs in the order of their numbers. */
export function listNets(values: VmValues): { readonly key: string; readonly net: NetDevice }[] {
  return Object.keys(values)
    .filter((key) => /^net\d+$/.test(key))
    .toSorted((a, b) => Number(a.slice(3)) - Number(b.slice(3)))
    .map((key) => ({ key, net: readNet(key, values[key] ?? "") }));
}
