// What VMs need of the host's network.
import type { NetDevice } from "./property-types.ts";
import type { VmValues } from "./vm-config.ts";
import { readVmProperty } from "./vm-properties.ts";

export interface HostBridge {
  /** The kernel's name; another than the configuration's where two data directories share a host. */
  readonly device: string;
  readonly mtu: number;
}

export interface KeyedNet {
  readonly key: string;
  readonly net: NetDevice;
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
  /** Moves a tap to another bridge, whose MTU it takes. */
  attach(tap: string, bridge: HostBridge): Promise<void>;
  /**
   * Lets the card send with its own MAC address only, or, without `firewall`, with any. Before the tap is there, so that
   * nothing is sent before. Returns what holds, in words; rejects where that cannot be had, and then the card must not come.
   */
  filter(vmid: number, tap: string, net: NetDevice): Promise<string | undefined>;
  /** One card has gone, or all of a guest. */
  unfilter(vmid: number, tap?: string): Promise<void>;
  /**
   * Keeps a user-mode network, by the id of its process, from what listens on this machine. Before it starts; rejects where
   * that cannot be had, and then it must not start.
   */
  wallOff(id: string): Promise<void>;
  /** It has ended. */
  unwall(id: string): Promise<void>;
  /** Walls of user-mode networks among processes that ran before we did; rejects where one cannot be had again. */
  adoptWalls(running: readonly { readonly id: string; readonly uid: number | undefined }[]): Promise<void>;
  /** Filters of guests that ran before we did. */
  adoptFilters(
    guests: readonly { readonly vmid: number; readonly nets: readonly KeyedNet[] }[],
  ): Promise<void>;
  /** Nothing of cards that are gone stays in the kernel. */
  sweep(): Promise<void>;
  /** How the cards of a running guest are filtered, in words. */
  filterRemarks(vmid: number, nets: readonly KeyedNet[]): string[];
}

export function readNet(key: string, text: string): NetDevice {
  return readVmProperty("net", text, key) as NetDevice;
}

/** NICs in the order of their numbers. */
export function listNets(values: VmValues): KeyedNet[] {
  return Object.keys(values)
    .filter((key) => /^net\d+$/.test(key))
    .toSorted((a, b) => Number(a.slice(3)) - Number(b.slice(3)))
    .map((key) => ({ key, net: readNet(key, values[key] ?? "") }));
}
