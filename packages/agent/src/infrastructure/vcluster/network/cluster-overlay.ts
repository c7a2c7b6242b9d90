// The cable between the bridges of one cluster on several nodes: a VXLAN device on each, which sends what it does not know the
// place of to all the others.
import { existsSync } from "node:fs";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  type ClusterOverlay,
  OVERLAY_PORT,
  overlayPeers,
  overlayVni,
} from "@gpve/domain/vcluster/overlay.ts";
import type { Exec } from "@gpve/kit/exec.ts";

const EVERYBODY = "00:00:00:00:00:00";

export class ClusterOverlays {
  readonly #exec: Exec;

  constructor(exec: Exec) {
    this.#exec = exec;
  }

  /** Makes or repairs it; answers with how long packets can be. */
  async ensure(index: number, bridge: string, overlay: ClusterOverlay): Promise<number> {
    const device = deviceOf(index);
    const local = overlay.nodes[overlay.at]?.address ?? "";
    if (!existsSync(`/sys/class/net/${device}`)) await this.#make(device, overlayVni(index), local);
    await this.#exec("ip", ["link", "set", "dev", device, "master", bridge, "up"]);
    await this.#tellPeers(device, overlayPeers(overlay));
    const mtu = await this.#mtu(device);
    await this.#exec("ip", ["link", "set", "dev", bridge, "mtu", String(mtu)]);
    return mtu;
  }

  async remove(index: number): Promise<void> {
    const device = deviceOf(index);
    if (existsSync(`/sys/class/net/${device}`)) await this.#exec("ip", ["link", "delete", "dev", device]);
  }

  /** Found by trying: a kernel does not say what it lacks. */
  async refusal(): Promise<string | undefined> {
    const device = `vcxtry${process.pid % 10_000_000}`;
    try {
      await this.#exec("ip", ["link", "add", "name", device, ...vxlan(overlayVni(0) - 1)]);
    } catch (err) {
      return `this node cannot make a VXLAN device, which joins the workers of a cluster on several nodes: ${messageOf(err)}; its kernel needs CONFIG_VXLAN (modprobe vxlan)`;
    }
    await this.#exec("ip", ["link", "delete", "dev", device]);
    return undefined;
  }

  async #make(device: string, vni: number, local: string): Promise<void> {
    // With the card it goes through it knows how long packets can be.
    const { stdout } = await this.#exec("ip", ["-o", "-4", "address", "show", "to", `${local}/32`]);
    const [, card] = /^\d+:\s+([^\s@]+)/.exec(stdout) ?? [];
    if (card === undefined)
      throw new AppError(
        "node.unavailable",
        `this node has no address ${local}, by which the other nodes of the cluster shall reach its workers`,
      );
    await this.#exec("ip", ["link", "add", "name", device, ...vxlan(vni), "local", local, "dev", card]);
  }

  async #tellPeers(device: string, peers: readonly string[]): Promise<void> {
    const { stdout } = await this.#exec("bridge", ["fdb", "show", "dev", device]);
    const known = [...stdout.matchAll(/^00:00:00:00:00:00 dst (\S+)/gm)].map(([, address = ""]) => address);
    const change = (verb: string, address: string): Promise<unknown> =>
      this.#exec("bridge", ["fdb", verb, EVERYBODY, "dev", device, "dst", address]);
    for (const address of peers.filter((each) => !known.includes(each))) await change("append", address);
    for (const address of known.filter((each) => !peers.includes(each))) await change("delete", address);
  }

  async #mtu(device: string): Promise<number> {
    const { stdout } = await this.#exec("ip", ["-o", "link", "show", "dev", device]);
    return Number(/\bmtu (\d+)/.exec(stdout)?.[1] ?? 1450);
  }
}

function deviceOf(index: number): string {
  return `vcx${index}`;
}

function vxlan(vni: number): readonly string[] {
  return ["type", "vxlan", "id", String(vni), "dstport", String(OVERLAY_PORT)];
}
