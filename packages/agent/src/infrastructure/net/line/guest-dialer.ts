// Dials guests on bridges of this node. An address is a guest's when the node itself sees it at one of the guest's cards: the
// MAC address that answers for it is the card's, and the bridge has learned it at the card's tap.
//
//   look (interfaces, neighbours) -> judge the address -> pin the line to device and taps -> connect -> look again
//
// The first look is for good words; the pin is what holds (line-pins.ts).
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestCard, GuestDialer, GuestLine, LineTarget } from "@gpve/domain/guest/guest-lines.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { listInterfaces, type NetInterface } from "../interfaces.ts";
import { isOnLink, ownInterface, plainLineAddress } from "./line-address.ts";
import type { LinePins } from "./line-pins.ts";
import type { LinePlace } from "./line-process.ts";
import { type Neighbour, neighboursOn, portsOf } from "./neighbours.ts";

export interface BridgeDialerDeps {
  readonly node: string;
  readonly exec: Exec;
  readonly log: Pick<Logger, "error">;
  readonly clock: Pick<Clock, "sleep">;
  readonly pins: Pick<LinePins, "add" | "remove">;
  readonly open: (place: LinePlace, signal: AbortSignal) => Promise<ConsoleSocket>;
  /** What the node's own DHCP server gave to a card. */
  readonly leasedAddress: (mac: string) => string | undefined;
}

/** Cards of a guest on one network of the node's. */
interface Network {
  readonly bridge: string;
  /** The bridge, or its interface in the cards' VLAN: what the node has an address on. */
  readonly device: string;
  readonly cidrs: readonly string[];
  readonly cards: readonly GuestCard[];
}

const LOOK_EVERY_MS = 300;

export class BridgeDialer implements GuestDialer {
  readonly #deps: BridgeDialerDeps;

  constructor(deps: BridgeDialerDeps) {
    this.#deps = deps;
  }

  async dial(target: LineTarget, signal: AbortSignal): Promise<GuestLine> {
    const interfaces = await listInterfaces(this.#deps.exec);
    const wanted = `a line to port ${target.port} of ${target.label}`;
    const networks = this.#networks(target, interfaces, wanted);
    const { network, address } =
      target.address === undefined
        ? await this.#seenAddress(networks, interfaces, wanted)
        : this.#judged(target.address, networks, interfaces, wanted);
    await this.#requireNotAnothers(network, address, { ...target, wanted }, ({ isFresh }) => isFresh);
    return { address, socket: await this.#connect(network, address, { ...target, wanted }, signal) };
  }

  #networks({ cards }: LineTarget, interfaces: readonly NetInterface[], wanted: string): Network[] {
    const networks = new Map<string, Network>();
    for (const card of cards) {
      const bridge = interfaces.find(({ name }) => name === card.tap)?.master;
      if (bridge === undefined) continue;
      const device = card.tag === undefined ? bridge : `${bridge}.${card.tag}`;
      const cidrs = interfaces.find(({ name }) => name === device)?.addresses ?? [];
      const known = networks.get(device)?.cards ?? [];
      networks.set(device, { bridge, device, cidrs, cards: [...known, card] });
    }
    if (networks.size > 0) return [...networks.values()];
    throw new AppError(
      "feature.unsupported",
      `cannot open ${wanted}: none of its cards is on a bridge of node ${this.#deps.node}, where the node could see an address at it; put a card on a bridge`,
    );
  }

  #judged(
    text: string,
    networks: readonly Network[],
    interfaces: readonly NetInterface[],
    wanted: string,
  ): { readonly network: Network; readonly address: string } {
    const { node } = this.#deps;
    const address = plainLineAddress(text);
    const own = ownInterface(address, interfaces);
    if (own !== undefined)
      throw denied(
        `cannot open ${wanted}: ${address} is node ${node} itself (${own}); name an address of the guest`,
      );
    const network = networks.find(({ cidrs }) => cidrs.some((cidr) => isOnLink(address, cidr)));
    if (network !== undefined) return { network, address };
    const has = networks.map(({ device, cidrs }) => `${device}: ${cidrs.join(", ") || "none"}`).join("; ");
    throw denied(
      `cannot open ${wanted}: ${address} is in no network that node ${node} shares with its cards (${has}), and a line is never routed on; name an address in one of them, or give the bridge one in the guest's network`,
    );
  }

  /** The leases of our own DHCP server first, then whoever answered for one of the cards. */
  async #seenAddress(
    networks: readonly Network[],
    interfaces: readonly NetInterface[],
    wanted: string,
  ): Promise<{ readonly network: Network; readonly address: string }> {
    const { leasedAddress, exec, node } = this.#deps;
    const found: { readonly network: Network; readonly address: string }[] = [];
    for (const network of networks) {
      const macs = new Set(network.cards.map(({ mac }) => mac.toLowerCase()));
      const neighbours = await neighboursOn(network.device, exec);
      const seen = neighbours.filter(({ mac }) => macs.has(mac)).map(({ address }) => address);
      const leased = [...macs].flatMap((mac) => leasedAddress(mac) ?? []);
      for (const address of [...leased, ...seen])
        if (isUsable(address, network, interfaces)) found.push({ network, address });
    }
    const first = found.find(({ address }) => !address.includes(":")) ?? found[0];
    if (first !== undefined) return first;
    throw new AppError(
      "object.conflict",
      `cannot open ${wanted}: node ${node} has seen no address at its cards yet; name the address (address=, gpvectl --address), or try again when the guest has sent something`,
    );
  }

  async #requireNotAnothers(
    { device, cards }: Network,
    address: string,
    { label, wanted }: { readonly label: string; readonly wanted: string },
    isBelieved: (neighbour: Neighbour) => boolean,
  ): Promise<void> {
    const neighbours = await neighboursOn(device, this.#deps.exec);
    const found = neighbours.find((each) => each.address === address && isBelieved(each));
    if (found === undefined || isOf(cards, found.mac)) return;
    throw denied(
      `cannot open ${wanted}: node ${this.#deps.node} sees ${address} at ${found.mac} on ${device}, which is no card of ${label}; name an address of that guest`,
    );
  }

  async #connect(
    network: Network,
    address: string,
    target: LineTarget & { readonly wanted: string },
    signal: AbortSignal,
  ): Promise<ConsoleSocket> {
    const { pins, log, open } = this.#deps;
    const { device } = network;
    const taps = network.cards.map(({ tap }) => tap);
    const pin = await pins.add(device, taps).catch((cause: unknown) => {
      throw new AppError(
        "feature.unsupported",
        `cannot open ${target.wanted}: it cannot be kept to the guest's own card: ${messageOf(cause)}. Install nftables and a kernel with its bridge family (\`gpvectl node capabilities\`: nft-bridge)`,
        { cause },
      );
    });
    const release = (): void => background(log, "removing the rules of a line", pins.remove(pin));
    let socket: ConsoleSocket | undefined;
    try {
      const place = { device, mark: pin.mark, address, port: target.port };
      socket = await this.#unlessAnothers(network, address, target, (mine) =>
        open(place, AbortSignal.any([signal, mine])),
      );
      await this.#requireSeen(network, address, target);
    } catch (err) {
      socket?.close();
      void (socket?.closed ?? Promise.resolve()).then(release);
      if (!(err instanceof Unanswered)) throw err;
      await this.#requireNotAnothers(network, address, target, () => true);
      throw new AppError(
        "node.unavailable",
        `cannot open ${target.wanted}: ${address} on ${device}: ${err.message}; look whether the guest listens there, and whether its own firewall lets node ${this.#deps.node} in`,
        { cause: err },
      );
    }
    void socket.closed.then(release);
    return socket;
  }

  /** Packets for somebody else are not sent, so that nothing would answer: who has the address is known long before that. */
  async #unlessAnothers(
    network: Network,
    address: string,
    target: LineTarget & { readonly wanted: string },
    open: (signal: AbortSignal) => Promise<ConsoleSocket>,
  ): Promise<ConsoleSocket> {
    const [over, another] = [new AbortController(), new AbortController()];
    const { clock } = this.#deps;
    const watch = async (): Promise<void> => {
      for (;;) {
        await clock.sleep(LOOK_EVERY_MS, over.signal);
        await this.#requireNotAnothers(network, address, target, ({ isFresh }) => isFresh);
      }
    };
    const watching = watch().catch((err: unknown) => {
      if (!over.signal.aborted) another.abort(err);
    });
    try {
      return await open(another.signal);
    } catch (cause) {
      throw isAppError(cause, "node.unavailable") ? new Unanswered(cause) : cause;
    } finally {
      over.abort();
      await watching;
    }
  }

  async #requireSeen(
    { device, bridge, cards }: Network,
    address: string,
    { label, wanted }: { readonly label: string; readonly wanted: string },
  ): Promise<void> {
    const { exec, node } = this.#deps;
    const neighbours = await neighboursOn(device, exec);
    const mac = neighbours.find((each) => each.address === address)?.mac;
    const at = mac === undefined ? [] : await portsOf(mac, bridge, exec);
    if (mac !== undefined && isOf(cards, mac) && cards.some(({ tap }) => at.includes(tap))) return;
    const where = mac === undefined ? "nowhere" : `at ${mac} behind ${at.join(", ") || "no port"}`;
    throw denied(
      `cannot open ${wanted}: node ${node} sees ${address} ${where} of ${bridge}, not at a card of ${label}; give the guest an address that nobody else has`,
    );
  }
}

class Unanswered extends Error {
  constructor(cause: Error) {
    super(cause.message, { cause });
  }
}

function denied(message: string): AppError {
  return new AppError("access.denied", message);
}

function isOf(cards: readonly GuestCard[], mac: string): boolean {
  return cards.some((card) => card.mac.toLowerCase() === mac);
}

function isUsable(address: string, { cidrs }: Network, interfaces: readonly NetInterface[]): boolean {
  try {
    return (
      plainLineAddress(address) === address &&
      ownInterface(address, interfaces) === undefined &&
      cidrs.some((cidr) => isOnLink(address, cidr))
    );
  } catch {
    return false;
  }
}
