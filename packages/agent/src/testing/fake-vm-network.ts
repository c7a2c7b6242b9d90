// A network in which every card is on the bridge it names, and nothing is limited.
import type { NetDevice } from "@gpve/domain/vm/config/property-types.ts";
import type { HostBridge, KeyedNet, VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";

export class FakeVmNetwork implements VmNetwork {
  tapsMissing: string | undefined;
  /** What was done, in order. */
  readonly done: string[] = [];
  /** Thrown by what is done to filters. */
  failure: Error | undefined;

  async isPortFree(): Promise<boolean> {
    return true;
  }

  async bridge(_key: string, net: NetDevice): Promise<HostBridge> {
    return { device: net.bridge ?? "", mtu: 1500 };
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
  }

  async filter(): Promise<undefined> {
    return undefined;
  }

  async unfilter(vmid: number): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
    this.done.push(`unfilter ${vmid}`);
  }

  async adoptFilters(
    guests: readonly { readonly vmid: number; readonly nets: readonly KeyedNet[] }[],
  ): Promise<void> {
    if (this.failure !== undefined) throw this.failure;
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

  filterRemarks(): string[] {
    return [];
  }
}
