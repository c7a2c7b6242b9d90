// The network of one virtual cluster on this node: a bridge of its own with a subnet of its own, and a network namespace
// for the control plane. Other clusters are on other bridges, and nothing is forwarded between them.
//
//   host  vcb7 100.80.7.1/24 ──┬── eth0 100.80.7.2  namespace of the control plane
//                              └── eth0 100.80.7.1x namespaces of workers
import { existsSync, readFileSync, rmSync, statfsSync } from "node:fs";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { ignore } from "@gpve/kit/background.ts";
import { clusterBridge } from "@gpve/domain/vcluster/cluster-bridge.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { balancerAddresses } from "@gpve/domain/vcluster/vnode/balancers.ts";
import {
  type ClusterOverlay,
  gatewayNumber,
  isBranch,
  overlayPeers,
  replicaSlot,
} from "@gpve/domain/vcluster/overlay.ts";
import { replicaNumber } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { ClaimedNetworks } from "./claimed-networks.ts";
import { ClusterOverlays } from "./cluster-overlay.ts";
import { ClusterWall, type WallWayOut } from "./cluster-wall.ts";

export interface ClusterNetwork {
  /** Of the subnet: 100.80.<index / 256 * …>. One on this host. */
  readonly index: number;
  readonly bridge: string;
  /** Of this host on the bridge. */
  readonly gateway: string;
  /** Of the control plane. */
  readonly address: string;
  /** File of the control plane's network namespace. */
  readonly namespaceFile: string;
}

interface NetworkOptions {
  readonly out?: readonly WallWayOut[];
  readonly egress?: boolean;
  readonly overlay?: ClusterOverlay;
}

export interface WorkerNetwork {
  readonly namespace: string;
  readonly namespaceFile: string;
  readonly address: string;
  /** Its port of the bridge. */
  readonly port: string;
}

const SUBNETS = 4096;
/** Last number of the first worker's address. */
const FIRST_WORKER = 10;
const NAMESPACES = "/run/netns";
/** The kind of filesystem that namespaces are files of. */
const NSFS = 0x6e_73_66_73;

/** Which network it had here before, and which are those of others: also of those that sleep, or have left. */
export interface NetworkWish {
  readonly first?: number;
  readonly taken: ReadonlySet<number>;
}

type ClusterName = Pick<KeptCluster, "name" | "called" | "tenant">;

export class ClusterNetworks {
  readonly #exec: Exec;
  readonly #instance: string;
  readonly #wall: ClusterWall;
  readonly #overlays: ClusterOverlays;
  readonly #wish: (cluster: ClusterName) => NetworkWish;
  readonly #claims: ClaimedNetworks;

  constructor(
    exec: Exec,
    instanceId: string,
    runFolder: string,
    wish: (cluster: ClusterName) => NetworkWish = () => ({ taken: new Set() }),
    claims = new ClaimedNetworks(runFolder),
  ) {
    this.#wish = wish;
    this.#claims = claims;
    this.#exec = exec;
    this.#instance = instanceId.slice(0, 8);
    this.#wall = new ClusterWall({ exec, instanceId, runFolder });
    this.#overlays = new ClusterOverlays(exec);
  }

  /** `replica`: its number, where the control plane has several. */
  describe(index: number, replica?: number): ClusterNetwork {
    const [high, low] = [80 + Math.floor(index / 256), index % 256];
    return {
      index,
      bridge: clusterBridge(index),
      gateway: `100.${high}.${low}.1`,
      address: `100.${high}.${low}.${replicaNumber(replica)}`,
      namespaceFile: `${NAMESPACES}/${this.#namespace(index)}`,
    };
  }

  /** A bridge that nobody on this host has yet; making it takes it. */
  async claim(cluster: ClusterName): Promise<number> {
    const { first = SUBNETS, taken } = this.#wish(cluster);
    for (let at = -1; at < SUBNETS; at++) {
      const index = at < 0 ? first : at;
      if (index >= SUBNETS || taken.has(index) || this.#claims.isOthers(index)) continue;
      const { bridge } = this.describe(index);
      if (existsSync(`/sys/class/net/${bridge}`) || existsSync(`${NAMESPACES}/${this.#namespace(index)}`))
        continue;
      try {
        await this.#ip(["link", "add", "name", bridge, "type", "bridge"]);
        this.#claims.claim(index);
        return index;
      } catch (err) {
        // Another took it in between.
        if (!existsSync(`/sys/class/net/${bridge}`)) throw networkFailure(bridge, err);
      }
    }
    throw new AppError(
      "capacity.exceeded",
      `all ${SUBNETS} networks for virtual clusters of this host are taken`,
    );
  }

  /** Makes or repairs all of it. `out`: what its control plane may call; `egress`: whether all of it may go out. */
  async ensure(
    index: number,
    { out = [], egress = false, overlay }: NetworkOptions = {},
  ): Promise<ClusterNetwork> {
    const network = this.describe(index, replicaSlot(overlay));
    const { bridge, address } = network;
    const gateway = this.#gateway(index, overlay);
    const peers = overlay === undefined ? [] : overlayPeers(overlay);
    this.#claims.claim(index);
    try {
      // Before anything can be sent through it.
      await this.#wall.add({ bridge, from: address, out, peers, egress });
      await this.#all([
        ...(existsSync(`/sys/class/net/${bridge}`) ? [] : [`link add name ${bridge} type bridge`]),
        `address replace ${gateway}/24 dev ${bridge}`,
        `link set dev ${bridge} up`,
      ]);
      const mtu = overlay && (await this.#overlays.ensure(index, bridge, overlay));
      if (overlay === undefined) await this.#overlays.remove(index);
      const port = controlPort(index);
      // The control plane is on one node, or a replica of it here.
      if (!isBranch(given({ overlay })))
        await this.#ensureNamespace(this.#namespace(index), { bridge, gateway, address, port, mtu });
    } catch (err) {
      throw networkFailure(bridge, err);
    }
    return network;
  }

  /** Where a worker is, and how it is called on this host. */
  worker(index: number, slot: number): WorkerNetwork {
    const [high, low] = [80 + Math.floor(index / 256), index % 256];
    const namespace = `${this.#namespace(index)}w${slot}`;
    return {
      namespace,
      namespaceFile: `${NAMESPACES}/${namespace}`,
      address: `100.${high}.${low}.${FIRST_WORKER + slot}`,
      port: `vcw${index}x${slot}`,
    };
  }

  /** Makes or repairs the network of a worker; the cluster's own is there. */
  async ensureWorker(index: number, slot: number, overlay?: ClusterOverlay): Promise<WorkerNetwork> {
    const { bridge } = this.describe(index);
    const gateway = this.#gateway(index, overlay);
    const worker = this.worker(index, slot);
    try {
      // Where the control plane is elsewhere, nobody else makes the rest of it after a boot.
      if (overlay !== undefined && !existsSync(`/sys/class/net/${bridge}`))
        await this.ensure(index, { overlay });
      const mtu = overlay && (await this.#overlays.ensure(index, bridge, overlay));
      await this.#ensureNamespace(worker.namespace, { bridge, gateway, ...worker, mtu });
    } catch (err) {
      throw networkFailure(worker.namespace, err);
    }
    return worker;
  }

  async removeWorker(index: number, slot: number): Promise<void> {
    const { namespace, namespaceFile, port } = this.worker(index, slot);
    await this.#unplug(port);
    if (existsSync(namespaceFile)) await this.#ip(["netns", "delete", namespace]);
  }

  /** In the namespace of the control plane, or of a worker. */
  async route(
    index: number,
    slot: number | undefined,
    to: { readonly network: string; readonly via: string },
  ): Promise<void> {
    const namespace = slot === undefined ? this.#namespace(index) : this.worker(index, slot).namespace;
    await this.#ip(["-n", namespace, "route", "replace", to.network, "via", to.via]);
  }

  /** Of Services of type LoadBalancer. */
  addresses(index: number): readonly string[] {
    return balancerAddresses(this.describe(index).gateway.replace(/\.1$/, ""));
  }

  /** What comes for these addresses goes to that worker; the others of the cluster lead nowhere. */
  async lead(index: number, addresses: readonly string[], slot: number): Promise<void> {
    const { bridge } = this.describe(index);
    const via = this.worker(index, slot).address;
    const { stdout } = await this.#exec("ip", ["-4", "route", "show", "dev", bridge]);
    const known = new Set(stdout.split("\n").map((line) => line.split(" ", 1)[0] ?? ""));
    for (const address of this.addresses(index))
      if (known.has(address) && !addresses.includes(address))
        await this.#ip(["route", "delete", `${address}/32`, "dev", bridge]);
    for (const address of addresses)
      await this.#ip(["route", "replace", `${address}/32`, "via", via, "dev", bridge]);
  }

  /** What is behind its bridge reaches nothing outside of it, or what it may again. */
  async shut(index: number, isShut: boolean): Promise<void> {
    await this.#wall.shut(this.describe(index).bridge, isShut);
  }

  /** The control plane's own; nothing runs in it. */
  async removeControl(index: number): Promise<void> {
    const { namespaceFile } = this.describe(index);
    await this.#unplug(controlPort(index));
    if (existsSync(namespaceFile)) await this.#ip(["netns", "delete", this.#namespace(index)]);
  }

  /** Of one that nothing runs of: its bridge stays, as whoever looks for a number takes one that has none. A namespace with
   * its card takes 0.3 MB of the kernel's memory, a bridge that is down a tenth of that. */
  async rest(index: number): Promise<void> {
    const { bridge } = this.describe(index);
    await this.removeControl(index);
    if (existsSync(`/sys/class/net/${bridge}`))
      await this.#all([`link set dev ${bridge} down`, `address flush dev ${bridge}`]);
    await this.#wall.remove(bridge);
  }

  /** Workers forget who had the control plane's address, else they would send to nobody for half a minute. */
  async lookAgain(index: number, slots: readonly number[]): Promise<void> {
    const { address } = this.describe(index);
    const forget = ["neigh", "flush", "to", address];
    await this.#ip(forget);
    for (const slot of slots) {
      const { namespace, namespaceFile } = this.worker(index, slot);
      if (existsSync(namespaceFile)) await this.#ip(["-n", namespace, ...forget]);
    }
  }

  async remove(index: number): Promise<void> {
    await this.clear(index);
    this.#claims.release(index);
  }

  /** What the kernel has of it. Its number stays its own, for when it is wanted again. */
  async clear(index: number): Promise<void> {
    const { bridge } = this.describe(index);
    await this.removeControl(index);
    await this.#overlays.remove(index);
    if (existsSync(`/sys/class/net/${bridge}`)) await this.#ip(["link", "delete", "dev", bridge]);
    await this.#wall.remove(bridge);
  }

  /** How long packets on its bridge can be. */
  mtu(index: number): number {
    return Number(readFileSync(`/sys/class/net/${this.describe(index).bridge}/mtu`, "utf8"));
  }

  /** Why clusters on several nodes cannot be made here; undefined = they can. */
  overlayRefusal(): Promise<string | undefined> {
    return this.#overlays.refusal();
  }

  #gateway(index: number, overlay: ClusterOverlay | undefined): string {
    return this.describe(index).gateway.replace(/\d+$/, String(gatewayNumber(overlay)));
  }

  async #ensureNamespace(
    name: string,
    at: {
      readonly bridge: string;
      readonly gateway: string;
      readonly address: string;
      readonly port: string;
      readonly mtu?: number | undefined;
    },
  ): Promise<void> {
    const file = `${NAMESPACES}/${name}`;
    // Where the machine lost its power and the folder stayed, it is an empty file that leads nowhere.
    if (existsSync(file) && statfsSync(file).type !== NSFS) rmSync(file);
    const isNew = !existsSync(file);
    if (isNew) await this.#ip(["netns", "add", name]);
    const has =
      !isNew &&
      (await this.#ip(["-n", name, "link", "show", "dev", "eth0"]).then(
        () => true,
        (err: unknown) => {
          ignore(err, "not there yet");
          return false;
        },
      ));
    // Of a namespace before that is still going.
    if (!has) await this.#unplug(at.port);
    const mtu = at.mtu === undefined ? "" : ` mtu ${at.mtu}`;
    await this.#all([
      ...(has ? [] : [`link add name ${at.port} type veth peer name eth0 netns ${name}`]),
      `link set dev ${at.port} master ${at.bridge} up${mtu}`,
    ]);
    await this.#all(
      [
        "link set dev lo up",
        `link set dev eth0 up${mtu}`,
        `address replace ${at.address}/24 dev eth0`,
        `route replace default via ${at.gateway}`,
      ],
      name,
    );
  }

  /** The kernel takes away what was in a namespace some time after that has gone: by then its name may be wanted again. */
  async #unplug(port: string): Promise<void> {
    if (!existsSync(`/sys/class/net/${port}`)) return;
    await this.#ip(["link", "delete", "dev", port]).catch((err: unknown) => {
      if (existsSync(`/sys/class/net/${port}`)) throw err;
      ignore(err, "the kernel was first");
    });
  }

  /** Those of several instances are side by side in one folder. */
  #namespace(index: number): string {
    return `gpve-${this.#instance}-vc${index}`;
  }

  async #ip(args: readonly string[]): Promise<unknown> {
    return this.#exec("ip", args);
  }

  /** One after the other by one process, up to the first that fails: to start one takes an agent of some size tens of
   * milliseconds, in which it does nothing else. Every word is ours. */
  async #all(lines: readonly string[], namespace?: string): Promise<void> {
    const at = namespace === undefined ? [] : ["-n", namespace];
    await this.#exec("ip", [...at, "-batch", "-"], { input: `${lines.join("\n")}\n` });
  }
}

function controlPort(index: number): string {
  return `vcp${index}`;
}

function networkFailure(bridge: string, cause: unknown): AppError {
  return new AppError(
    "internal.error",
    `cannot make the network ${bridge} of a virtual cluster: ${messageOf(cause)}; it needs root, bridges and network namespaces`,
    { cause },
  );
}
