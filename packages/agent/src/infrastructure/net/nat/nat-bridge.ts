// A network for guests out of the box: a bridge with DHCP and DNS (dnsmasq) behind the host's address (nftables).
// Everything carries the instance id: the bridge by its alias, the nft table by its name, dnsmasq by its process
// identity. What carries another's, or nobody's, is never touched.
import { createHash } from "node:crypto";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { kill as sendSignal } from "node:process";
import { AppError } from "@gpve/contracts/errors.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { type Exec, exec as systemExec } from "@gpve/kit/exec.ts";
import { identify, isAlive, type ProcessIdentity } from "@gpve/kit/process-identity.ts";
import { spawnDetached } from "@gpve/kit/spawn.ts";
import { dnsmasqArgs } from "./dnsmasq-args.ts";
import { listInterfaces, type NetInterface } from "../interfaces.ts";
import {
  instanceBridgeName,
  isGuestsBridge,
  isOtherInstances,
  type NatNetwork,
  ownerAlias,
} from "./nat-network.ts";
import { natTable, natTableName } from "./nat-table.ts";
import { sweepLimits } from "../filter/rate-limit.ts";
import { takenSubnets } from "./taken-subnets.ts";
import { freeSubnet, ipv4Range, ipv4Text } from "./subnet.ts";

export interface NatBridgeOptions {
  readonly instanceId: string;
  /** DIR/run/net */
  readonly runFolder: string;
  /** Default vmbr0. */
  readonly bridge?: string;
  /** Made also where the host has a guests' bridge of its own. */
  readonly besideOthers?: boolean;
  readonly exec?: Exec;
  readonly clock?: Clock;
  /** Starts dnsmasq; its pid is returned. */
  readonly spawn?: typeof spawnDetached;
  readonly enableForwarding: () => void;
}

interface Note {
  readonly subnet: string;
  readonly dnsmasq?: ProcessIdentity & { readonly arguments: string };
}

export class NatBridge {
  readonly #options: NatBridgeOptions;
  readonly #exec: Exec;
  readonly #clock: Clock;
  readonly #name: string;
  /** The kernel's name; known once `ensure` or `teardown` has looked. */
  #bridge: string;
  readonly #alias: string;

  constructor(options: NatBridgeOptions) {
    this.#options = options;
    this.#exec = options.exec ?? systemExec;
    this.#clock = options.clock ?? systemClock;
    this.#name = options.bridge ?? "vmbr0";
    this.#bridge = this.#name;
    this.#alias = ownerAlias(options.instanceId);
  }

  /**
   * Makes or repairs the network. undefined = the host has a guests' bridge that is not ours: then that one is used as
   * it is. Bridges of other tools (docker0, virbr0, br-...) are left alone, and are no reason to have none.
   */
  async ensure(): Promise<NatNetwork | undefined> {
    const interfaces = await listInterfaces(this.#exec);
    const ours = this.#ourBridge(interfaces);
    const { instanceId, besideOthers } = this.#options;
    const foreign =
      besideOthers !== true &&
      interfaces.some((found) => isGuestsBridge(found) && !isOtherInstances(found, instanceId));
    if (ours === undefined && foreign) return undefined;
    if (ours === undefined && interfaces.some(({ name }) => name === this.#bridge))
      this.#bridge = instanceBridgeName(this.#name, instanceId);
    if (ours === undefined && interfaces.some(({ name }) => name === this.#bridge))
      throw new AppError("object.exists", `there is already an interface named ${this.#bridge}`);
    mkdirSync(this.#options.runFolder, { recursive: true, mode: 0o700 });
    const subnet = this.#readNote()?.subnet ?? (await this.#chooseSubnet());
    const network = this.#describe(subnet);
    this.#writeNote({ ...this.#readNote(), subnet });
    if (ours === undefined) await this.#makeBridge();
    if (!(ours?.addresses.includes(`${network.gateway}/24`) ?? false))
      await this.#exec("ip", ["address", "replace", `${network.gateway}/24`, "dev", this.#bridge]);
    await this.#exec("ip", ["link", "set", "dev", this.#bridge, "up"]);
    this.#options.enableForwarding();
    // Through a file: nft opens /dev/stdin by name, which fails where stdin is a socket, as Node's pipes are.
    const rules = join(this.#options.runFolder, `${this.#name}.nft.json`);
    writeFileAtomic(rules, JSON.stringify(natTable(this.#options.instanceId, this.#bridge, subnet)));
    await this.#exec("nft", ["-j", "-f", rules]);
    await this.#ensureDnsmasq(network);
    return network;
  }

  /** Whether everything `ensure` made is still there; others may have killed dnsmasq or flushed the rules. */
  async isWhole(): Promise<boolean> {
    const dnsmasq = this.#readNote()?.dnsmasq;
    if (dnsmasq === undefined || !isAlive(dnsmasq)) return false;
    if (this.#ourBridge(await listInterfaces(this.#exec)) === undefined) return false;
    return this.#hasTable();
  }

  /** Removes what `ensure` made, and nothing else. Guests on the bridge lose their network. */
  async teardown(): Promise<void> {
    const note = this.#readNote();
    if (note === undefined) return; // written before anything else is made
    if (note.dnsmasq !== undefined && isAlive(note.dnsmasq)) {
      sendSignal(note.dnsmasq.pid, "SIGTERM");
      await this.#waitGone(note.dnsmasq);
    }
    const table = natTableName(this.#options.instanceId);
    await sweepLimits({ exec: this.#exec, table });
    if (await this.#hasTable()) await this.#exec("nft", ["delete", "table", "ip", table]);
    if (this.#ourBridge(await listInterfaces(this.#exec)) !== undefined)
      await this.#exec("ip", ["link", "delete", "dev", this.#bridge]);
    rmSync(this.#notePath(), { force: true });
  }

  async #hasTable(): Promise<boolean> {
    const { stdout } = await this.#exec("nft", ["list", "tables"]);
    return stdout.split("\n").includes(`table ip ${natTableName(this.#options.instanceId)}`);
  }

  #ourBridge(interfaces: readonly NetInterface[]): NetInterface | undefined {
    const names = [this.#name, instanceBridgeName(this.#name, this.#options.instanceId)];
    const ours = interfaces.find(({ name, alias }) => names.includes(name) && alias === this.#alias);
    if (ours !== undefined) this.#bridge = ours.name;
    return ours;
  }

  async #makeBridge(): Promise<void> {
    // A fixed address: otherwise the bridge takes that of its lowest port, and changes it as guests come and go.
    const bytes = createHash("sha256").update(`${this.#alias}/${this.#bridge}`).digest().subarray(0, 5);
    const mac = ["02", ...[...bytes].map((byte) => byte.toString(16).padStart(2, "0"))].join(":");
    await this.#exec("ip", ["link", "add", "name", this.#bridge, "address", mac, "type", "bridge"]);
    await this.#exec("ip", ["link", "set", "dev", this.#bridge, "alias", this.#alias]);
  }

  async #chooseSubnet(): Promise<string> {
    const subnet = freeSubnet(await takenSubnets(this.#exec));
    if (subnet !== undefined) return subnet;
    throw new AppError(
      "capacity.exceeded",
      "no free subnet in 10.37.0.0/16 for the guests' network: make a bridge yourself",
    );
  }

  #describe(subnet: string): NatNetwork {
    const gateway = ipv4Text((ipv4Range(subnet)?.first ?? 0) + 1);
    const leaseFile = join(this.#options.runFolder, `${this.#name}.leases`);
    return { name: this.#name, bridge: this.#bridge, subnet, gateway, leaseFile };
  }

  async #ensureDnsmasq(network: NatNetwork): Promise<void> {
    const args = dnsmasqArgs(network);
    const wanted = createHash("sha256").update(args.join("\0")).digest("hex");
    const known = this.#readNote()?.dnsmasq;
    if (known !== undefined && isAlive(known)) {
      if (known.arguments === wanted) return;
      sendSignal(known.pid, "SIGTERM");
      await this.#waitGone(known);
    }
    const pid = (this.#options.spawn ?? spawnDetached)("dnsmasq", args, {
      logFile: join(this.#options.runFolder, `${this.#name}.dnsmasq.log`),
      env: { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C" },
    });
    const identity = identify(pid);
    // It checks its arguments and binds its ports in its first moments, which are longer on a busy machine.
    await this.#clock.sleep(500);
    if (identity === undefined || !isAlive(identity))
      throw new AppError(
        "internal.error",
        `dnsmasq does not run for ${this.#bridge}: see ${this.#name}.dnsmasq.log in ${this.#options.runFolder}`,
      );
    this.#writeNote({ subnet: network.subnet, dnsmasq: { ...identity, arguments: wanted } });
  }

  async #waitGone(identity: ProcessIdentity): Promise<void> {
    for (let attempt = 0; attempt < 100 && isAlive(identity); attempt++) await this.#clock.sleep(20);
    if (isAlive(identity)) sendSignal(identity.pid, "SIGKILL");
  }

  #notePath(): string {
    return join(this.#options.runFolder, `${this.#name}.json`);
  }

  #readNote(): Note | undefined {
    return readJsonFile(this.#notePath()) as Note | undefined;
  }

  #writeNote(note: Note): void {
    writeFileAtomic(this.#notePath(), `${JSON.stringify(note)}\n`);
  }
}
