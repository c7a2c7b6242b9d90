// Bridges and taps of VMs on this host.
import { isUserNetworkUid } from "../guest-process/guest-uid.ts";
import { existsSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { NetDevice } from "@gpve/domain/vm/config/property-types.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { readTextFile } from "@gpve/kit/atomic-file.ts";
import { hostFiles } from "../facts/host-files.ts";
import { parseResolvConf } from "../host/resolv-conf.ts";
import type { HostBridge, KeyedNet, VmNetwork } from "@gpve/domain/vm/config/vm-network.ts";
import { checkBridge, vlanCommands } from "./bridge-check.ts";
import { kernelLink, type KernelLink } from "./kernel-links.ts";
import { instanceBridgeName, kernelBridge } from "./nat/nat-network.ts";
import { HostWall } from "./filter/host-wall.ts";
import { MacFilter } from "./filter/mac-filter.ts";
import { natTableName } from "./nat/nat-table.ts";
import { limitRate, type RateTools, sweepLimits } from "./filter/rate-limit.ts";
import { isPortFree } from "./local-port.ts";
import { tapName, whyNoTaps } from "./tap-name.ts";

const FILTERED = "firewall=1 keeps the card to its own MAC address; further firewall rules do not exist yet";

export interface VmBridgesOptions {
  readonly instanceId: string;
  readonly exec: Exec;
  /** Whether the kernel has an interface of that name. */
  readonly exists?: (name: string) => boolean;
  /** What it is. */
  readonly link?: (name: string) => Promise<KernelLink | undefined>;
}

export class VmBridges implements VmNetwork {
  readonly tapsMissing = whyNoTaps(process.getuid?.() === 0, existsSync);
  readonly macFilter: MacFilter;
  /** undefined = without root there is nothing to build it with. */
  readonly hostWall: HostWall | undefined;
  readonly #options: VmBridgesOptions;
  readonly #exists: (name: string) => boolean;
  readonly #link: (name: string) => Promise<KernelLink | undefined>;
  /** Unknown at first: an agent before this one may have made some. */
  #mayHaveLimits = true;

  constructor(options: VmBridgesOptions) {
    this.#options = options;
    const table = natTableName(options.instanceId);
    this.macFilter = new MacFilter({ exec: options.exec, table });
    this.hostWall =
      process.getuid?.() === 0 ? new HostWall({ exec: options.exec, table, nameServers }) : undefined;
    this.#link = options.link ?? ((name) => kernelLink(hostFiles, name));
    this.#exists = options.exists ?? ((name) => existsSync(`/sys/class/net/${name}`));
  }

  async bridge(key: string, net: NetDevice): Promise<HostBridge> {
    const named = net.bridge ?? "";
    const names = [named, instanceBridgeName(named, this.#options.instanceId)];
    const interfaces = (await Promise.all(names.map(this.#link))).filter((link) => link !== undefined);
    const device = kernelBridge(named, this.#options.instanceId, interfaces);
    checkBridge(
      {
        key,
        bridge: device,
        ...given({ tag: net.tag, trunks: net.trunks }),
      },
      interfaces,
    );
    return { device, mtu: interfaces.find(({ name }) => name === device)?.mtu ?? 1500 };
  }

  isPortFree(port: number): Promise<boolean> {
    return isPortFree(port);
  }

  newTap(vmid: number, key: string): string {
    return this.#tap(vmid, key, (name) => this.#exists(name));
  }

  tapOf(vmid: number, key: string): string {
    const own = this.#tap(vmid, key, () => true);
    return this.#exists(own) ? own : this.#tap(vmid, key, () => false);
  }

  async configure(tap: string, net: NetDevice): Promise<readonly string[]> {
    const { exec } = this.#options;
    if (net.tag !== undefined || net.trunks !== undefined) {
      for (const args of vlanCommands(tap, net)) await exec("bridge", args);
    }
    try {
      const limit = await limitRate(tap, net.rate ?? 0, this.#rateTools());
      if (limit.fromGuest === "nft") this.#mayHaveLimits = true;
      return limit.missing;
    } catch (err) {
      return [messageOf(err)];
    }
  }

  async attach(tap: string, { device, mtu }: HostBridge): Promise<void> {
    await this.#options.exec("ip", ["link", "set", "dev", tap, "mtu", String(mtu), "master", device]);
  }

  async filter(vmid: number, tap: string, net: NetDevice): Promise<string | undefined> {
    const { macaddr: mac } = net;
    if (net.firewall !== true) {
      await this.unfilter(vmid, tap);
      return undefined;
    }
    try {
      if (mac === undefined) throw new AppError("request.invalid", "the card has no MAC address");
      await this.macFilter.add({ vmid, tap, mac });
      return FILTERED;
    } catch (cause) {
      throw new AppError(
        "feature.unsupported",
        `firewall=1 cannot be kept, the card could send with any MAC address: ${messageOf(cause)}. Install nftables and a kernel with its bridge family (\`gpvectl node capabilities\`: nft-bridge), or set firewall=0`,
        { cause, pveStatus: 500 },
      );
    }
  }

  async unfilter(vmid: number, tap?: string): Promise<void> {
    await this.macFilter.remove((card) => card.vmid === vmid && (tap === undefined || card.tap === tap));
  }

  async wallOff(id: string): Promise<void> {
    await this.hostWall?.add(id);
  }

  async unwall(id: string): Promise<void> {
    await this.hostWall?.remove(id);
  }

  filterRemarks(vmid: number, nets: readonly KeyedNet[]): string[] {
    return nets.flatMap(({ key, net }) => {
      if (net.firewall !== true || net.bridge === undefined || this.tapsMissing !== undefined) return [];
      const filtered = this.macFilter.has(this.tapOf(vmid, key));
      return [
        `${key}: ${filtered ? FILTERED : "firewall=1 is not kept now: the card may send with any MAC address; it is tried again"}`,
      ];
    });
  }

  async adoptWalls(
    running: readonly { readonly id: string; readonly uid: number | undefined }[],
  ): Promise<void> {
    const ids = running.filter(({ uid = 0 }) => isUserNetworkUid(uid)).map(({ id }) => id);
    try {
      await this.hostWall?.adopt(ids);
    } catch (err) {
      if (ids.length > 0) throw err;
      ignore(err, "there is nobody to be kept out");
    }
  }

  /** Cards of guests that ran before we did. */
  async adoptFilters(
    guests: readonly { readonly vmid: number; readonly nets: readonly KeyedNet[] }[],
  ): Promise<void> {
    const cards = guests.flatMap(({ vmid, nets }) =>
      nets.flatMap(({ key, net }) => {
        const tap = this.tapOf(vmid, key);
        if (net.firewall !== true || net.macaddr === undefined || !this.#exists(tap)) return [];
        return [{ vmid, tap, mac: net.macaddr }];
      }),
    );
    await this.macFilter.adopt(cards);
    if (cards.length === 0) await this.macFilter.sweep();
  }

  /** Nothing of cards that are gone stays in the kernel. */
  async sweep(): Promise<void> {
    if (!this.#mayHaveLimits) return;
    try {
      this.#mayHaveLimits = (await sweepLimits(this.#rateTools(), this.#exists)) > 0;
    } catch (err) {
      ignore(err, "who cannot ask nft has made no limits with it");
      this.#mayHaveLimits = false;
    }
  }

  #rateTools(): RateTools {
    return { exec: this.#options.exec, table: natTableName(this.#options.instanceId) };
  }

  #tap(vmid: number, key: string, taken: (name: string) => boolean): string {
    return tapName(vmid, Number(key.slice("net".length)), { id: this.#options.instanceId, taken });
  }
}

function nameServers(): string[] {
  const { dns1, dns2, dns3 } = parseResolvConf(readTextFile("/etc/resolv.conf") ?? "");
  return [dns1, dns2, dns3].filter((server) => server !== undefined);
}
