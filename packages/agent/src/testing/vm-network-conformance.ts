// What those who give VMs network cards may rely on: run on the fake and on bridges of the kernel.
import { afterEach, beforeEach, expect, it } from "vitest";
import { readNet, type VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";

export interface NetworkUnderTest {
  readonly network: VmNetwork;
  /** Two bridges that are there; the first carries frames of 1400 bytes, the second of 1500. */
  readonly bridges: readonly [string, string];
  makeTap(name: string): Promise<void>;
  masterOf(tap: string): Promise<string | undefined>;
  /** Somebody listens at a port of 127.0.0.1, which is returned. */
  takePort(): Promise<number>;
  /** Another agent on the same host, after the first has gone. */
  reopen(): VmNetwork;
  clean(): Promise<void>;
}

const MAC = "BC:24:11:00:00:01";

export function vmNetworkConformance(open: () => Promise<NetworkUnderTest>): void {
  let under: NetworkUnderTest;
  let network: VmNetwork;
  beforeEach(async () => {
    under = await open();
    ({ network } = under);
  });
  afterEach(async () => {
    await under.clean();
  });
  const card = (more = "") => readNet("net0", `virtio=${MAC},bridge=${under.bridges[0]}${more}`);

  it("has a name for each tap that the kernel takes, and knows it again once it is there", async () => {
    const names = [network.newTap(100, "net0"), network.newTap(100, "net1"), network.newTap(101, "net0")];
    expect(new Set(names).size).toBe(3);
    for (const name of names) expect(name).toMatch(/^[a-z0-9]{1,15}$/);
    await under.makeTap(names[1] ?? "");
    expect(network.tapOf(100, "net1")).toBe(names[1]);
  });

  it("finds the bridge of a card, and says which is not there", async () => {
    const [narrow, wide] = under.bridges;
    expect(await network.bridge("net0", card())).toEqual({ device: narrow, mtu: 1_400 });
    expect(await network.bridge("net0", readNet("net0", `virtio,bridge=${wide}`))).toMatchObject({
      mtu: 1_500,
    });
    const nowhere = network.bridge("net0", readNet("net0", "virtio,bridge=vmbr4094"));
    await expect(nowhere).rejects.toThrow("bridge 'vmbr4094' does not exist");
    const cluster = network.bridge("net0", readNet("net0", "virtio,bridge=vcb7"));
    await expect(cluster).rejects.toThrow("net0: 'vcb7' is the bridge of a virtual cluster");
  });

  it("moves a tap from bridge to bridge", async () => {
    const tap = network.newTap(100, "net0");
    await under.makeTap(tap);
    for (const bridge of under.bridges) {
      await network.attach(tap, await network.bridge("net0", readNet("net0", `virtio,bridge=${bridge}`)));
      expect(await under.masterOf(tap)).toBe(bridge);
    }
  });

  it("filters a card before its tap is there, tells how, and no longer once it is not", async () => {
    const nets = [{ key: "net0", net: card(",firewall=1") }];
    const tap = network.newTap(100, "net0");
    expect(network.filterRemarks(100, [{ key: "net0", net: card() }])).toEqual([]);
    expect(await network.filter(100, tap, card())).toBeUndefined();
    const words = await network.filter(100, tap, card(",firewall=1"));
    expect(words).toContain("own MAC address");
    expect(network.filterRemarks(100, nets)).toEqual([`net0: ${words}`]);
    await network.unfilter(101);
    expect(network.filterRemarks(100, nets)).toEqual([`net0: ${words}`]);
    await network.unfilter(100, tap);
    expect(network.filterRemarks(100, nets)).toEqual([expect.stringContaining("not kept now")]);
    await network.unfilter(100);
    const nameless = readNet("net0", `virtio,bridge=${under.bridges[0]},firewall=1`);
    await expect(network.filter(100, tap, nameless)).rejects.toThrow("firewall=1 cannot be kept");
  });

  it("filters again the cards of guests that ran before it", async () => {
    const nets = [{ key: "net0", net: card(",firewall=1") }];
    const tap = network.newTap(100, "net0");
    const words = await network.filter(100, tap, card(",firewall=1"));
    await under.makeTap(tap);
    const after = under.reopen();
    expect(after.filterRemarks(100, nets)).toEqual([expect.stringContaining("not kept now")]);
    await after.adoptFilters([{ vmid: 100, nets }]);
    expect(after.filterRemarks(100, nets)).toEqual([`net0: ${words}`]);
    await after.unfilter(100);
    await after.sweep();
  });

  it("knows which ports are taken", async () => {
    const port = await under.takePort();
    expect(await network.isPortFree(port)).toBe(false);
  });
}
