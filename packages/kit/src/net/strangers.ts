// Bounds what connections cost whose peer has not proven who it is. An address (of IPv6, a network) has so many; when it
// wants more, its oldest unproven one gives way, so that whoever holds many open does not keep others of that address
// out. The same holds for all addresses together. A handshake that is not over in time ends, however its bytes trickle in.
import type { Socket } from "node:net";
import { ArrivalList } from "../arrival-list.ts";
import type { Clock } from "../clock.ts";
import { clientNetwork, plainAddress } from "./client-network.ts";

export interface StrangerLimits {
  readonly perAddress: number;
  readonly inAll: number;
  /** A connection younger than this gives way only in a flood: its proof may be under way. */
  readonly graceMs: number;
  /** From the connection to the end of the handshake. */
  readonly handshakeMs: number;
}

export interface StrangersOptions {
  readonly limits: StrangerLimits;
  readonly clock: Clock;
  /** Peers that stand for many others; their connections are not counted by address. */
  readonly isProxy?: (address: string) => boolean;
  /** Whether what was given to `secured` has proven itself since. */
  readonly isKnown?: (secured: object) => boolean;
}

/** Within the grace time there may be this many times the number. */
const BURST = 2;

interface Stranger {
  readonly socket: Socket;
  readonly network: string;
  readonly since: number;
  /** The TLS connection on it, once there is one. */
  secured?: object;
}

export class Strangers {
  readonly #options: StrangersOptions;
  readonly #all = new ArrivalList<Stranger>();
  readonly #byNetwork = new Map<string, ArrivalList<Stranger>>();
  readonly #byPeer = new Map<string, Stranger>();
  readonly #inHandshake = new ArrivalList<Stranger>();
  #stopTimer: (() => void) | undefined;

  constructor(options: StrangersOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Takes a new connection in; others may have to go for it. */
  admit(socket: Socket): void {
    const address = plainAddress(socket.remoteAddress ?? "");
    const { limits, clock, isProxy } = this.#options;
    const network = clientNetwork(address);
    const own = this.#byNetwork.get(network) ?? new ArrivalList<Stranger>();
    // A trusted proxy stands for many; whom it stands for is counted by request.
    if (isProxy?.(address) !== true) this.#makeRoom(own, limits.perAddress);
    this.#makeRoom(this.#all, limits.inAll);
    const stranger: Stranger = { socket, network, since: clock.monotonic() };
    const peer = peerOf(socket);
    this.#byPeer.set(peer, stranger);
    own.add(stranger);
    this.#byNetwork.set(network, own);
    this.#all.add(stranger);
    this.#inHandshake.add(stranger);
    socket.once("close", () => {
      this.#forget(stranger);
      if (this.#byPeer.get(peer) === stranger) this.#byPeer.delete(peer);
    });
    this.#watchHandshakes();
  }

  /** The handshake is over. `secured` is what will be known when the peer has proven itself. */
  secured(secured: Socket): void {
    const stranger = this.#byPeer.get(peerOf(secured));
    if (stranger === undefined) return;
    stranger.secured = secured;
    this.#inHandshake.delete(stranger);
  }

  /** It has proven itself and is none of ours any more. */
  proven(secured: Socket): void {
    const stranger = this.#byPeer.get(peerOf(secured));
    if (stranger !== undefined) this.#forget(stranger);
  }

  /** The connection that a TLS connection is on. */
  connectionOf(secured: Socket): Socket | undefined {
    return this.#byPeer.get(peerOf(secured))?.socket;
  }

  close(): void {
    this.#stopTimer?.();
  }

  /** Every round of the loop removes one, so that the cost of a connection is the same whatever is open. */
  #makeRoom(among: ArrivalList<Stranger>, most: number): void {
    const { limits, clock, isKnown } = this.#options;
    const young = clock.monotonic() - limits.graceMs;
    while (among.size >= most) {
      const stranger = among.oldest;
      if (stranger === undefined) return;
      const known = stranger.secured !== undefined && isKnown?.(stranger.secured) === true;
      if (!known && stranger.since > young && among.size < most * BURST) return;
      this.#forget(stranger);
      if (!known) stranger.socket.destroy();
    }
  }

  #watchHandshakes(): void {
    const { oldest } = this.#inHandshake;
    if (this.#stopTimer !== undefined || oldest === undefined) return;
    const { limits, clock } = this.#options;
    const left = oldest.since + limits.handshakeMs - clock.monotonic();
    this.#stopTimer = clock.after(Math.max(0, left), () => {
      this.#stopTimer = undefined;
      const late = clock.monotonic() - limits.handshakeMs;
      let stranger = this.#inHandshake.oldest;
      while (stranger !== undefined && stranger.since <= late) {
        this.#forget(stranger);
        stranger.socket.destroy();
        stranger = this.#inHandshake.oldest;
      }
      this.#watchHandshakes();
    });
  }

  #forget(stranger: Stranger): void {
    this.#all.delete(stranger);
    this.#inHandshake.delete(stranger);
    const own = this.#byNetwork.get(stranger.network);
    own?.delete(stranger);
    if (own?.size === 0) this.#byNetwork.delete(stranger.network);
  }
}

function peerOf(socket: Socket): string {
  return `${socket.remoteAddress} ${socket.remotePort} ${socket.localAddress}`;
}
