// A network in which every card is on the bridge it names, unless a test takes that away, and nothing is limited.
import { AppError } from "@gpve/contracts/errors.ts";
import { clusterBridgeRefusal, isClusterBridge } from "@gpve/domain/vcluster/cluster-bridge.ts";
import { missing, refused } from "@gpve/domain/request/failures.ts";
import type { NetDevice } from "@gpve/domain/vm/config/property-types.ts";
import type { HostBridge, KeyedNet, VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";

const FILTERED = "the card sends with its own MAC address only";

export class FakeVmNetwork implements VmNetwork {
  tapsMissing: string | undefined;
  /** What was done, in order. */
  readonly done: string[] = [];
  /** Thrown by what is done to filters. */
  failure: Error | undefined;
  readonly takenPorts = new Set<number>();
  readonly missingBridges = new Set<string>();
  /** Of bridges whose frames are not of 1500 bytes. */
  readonly mtus = new Map<string, number>();
  /** Taps by the bridge they are on. */
  readonly taps = new Map<string, string>();
  readonly #filtered = new Map<string, number>();

  async isPortFree(port: number): Promise<boolean> {
    return !this.takenPorts.has(port);
  }

  async bridge(key: string, net: NetDevice): Promise<HostBridge> {
    const { bridge: device = "" } = net;
    if (isClusterBridge(device)) throw refused(`${key}: ${clusterBridgeRefusal(device)}`);
    if (this.missingBridges.has(device)) throw missing(`bridge '${device}' does not exist`);
    return { device, mtu: this.mtus.get(device) ?? 1500 };
  }

  newTap(vmid: number, key: string): string {
    return this.tapOf(vmid, key);
  }

  tapOf(vmid: number, key: string): string {
    return `tap${vmid}i${key.slice("net".length)}`;
  }

  async configure(): Promise<readonly string[]> {
    return [];
  }

  async attach(tap: string, { device }: HostBridge): Promise<void> {
    this.done.push(`attach ${tap} ${device}`);
    this.taps.set(tap, device);
  }

  async filter(vmid: number, tap: string, net: NetDevice): Promise<string | undefined> {
    this.#filtered.delete(tap);
    if (net.firewall !== true) return undefined;
    if (net.macaddr === undefined)
      throw new AppError("feature.unsupported", "firewall=1 cannot be kept: the card has no MAC address");
    this.#filtered.set(tap, vmid);
    return FILTERED;
  }

  async unfilter(vmid: number, only?: string): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    for (const [tap, owner] of this.#filtered)
      if (owner === vmid && (only === undefined || only === tap)) this.#filtered.delete(tap);
    this.done.push(`unfilter ${vmid}`);
  }

  async adoptFilters(
    guests: readonly { readonly vmid: number; readonly nets: readonly KeyedNet[] }[],
  ): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    for (const { vmid, nets } of guests)
      for (const { key, net } of nets) await this.filter(vmid, this.tapOf(vmid, key), net);
    for (const { vmid, nets } of guests) this.done.push(`adopt ${vmid} ${nets.map(({ key }) => key).join()}`);
  }

  async wallOff(id: string): Promise<void> {
    this.done.push(`wall off ${id}`);
  }

  async unwall(id: string): Promise<void> {
    this.done.push(`unwall ${id}`);
  }

  async adoptWalls(running: readonly { readonly id: string }[]): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    this.done.push(`adopt walls ${running.map(({ id }) => id).join()}`);
  }

  async sweep(): Promise<void> {
    this.done.push("sweep");
  }

  filterRemarks(vmid: number, nets: readonly KeyedNet[]): string[] {
    return nets
      .filter(({ net }) => net.firewall === true)
      .map(({ key }) =>
        this.#filtered.has(this.tapOf(vmid, key))
          ? `${key}: ${FILTERED}`
          : `${key}: firewall=1 is not kept now`,
      );
  }
}
