// Bounds what peers cost that have not proven who they are. An address has so many connections; when it wants more,
// its oldest unproven one gives way, so that whoever holds many open does not keep others of that address out. Those
// that come by h2, where only joining needs no certificate, also have a time and a number of bytes in all.
import type { Socket } from "node:net";
import { isKnown } from "./known-peers.ts";

export interface StrangerLimits {
  readonly perAddress: number;
  readonly inAll: number;
  /** A connection younger than this gives way only in a flood: its proof may be under way. */
  readonly graceMs: number;
  readonly joinMs: number;
  readonly joinBytes: number;
}

export const STRANGER_LIMITS: StrangerLimits = {
  perAddress: 256,
  inAll: 2_048,
  graceMs: 2_000,
  joinMs: 10_000,
  joinBytes: 64 * 1024,
};

const CHECK_EVERY_MS = 250;
/** In its grace time an address may have this many times its number. */
const BURST = 2;

interface Stranger {
  readonly socket: Socket;
  readonly address: string;
  readonly since: number;
  /** The TLS connection on it, once there is one. */
  secured?: object;
  joining?: { readonly since: number; readonly bytes: number };
}

export class Strangers {
  readonly #limits: StrangerLimits;
  readonly #isProxy: (address: string) => boolean;
  /** By address, then by port, oldest first. */
  readonly #byAddress = new Map<string, Map<number, Stranger>>();
  readonly #timer: NodeJS.Timeout;
  #count = 0;

  constructor(limits: StrangerLimits, isProxy: (address: string) => boolean) {
    this.#limits = limits;
    this.#isProxy = isProxy;
    this.#timer = setInterval(() => this.#endLateJoins(), CHECK_EVERY_MS);
    this.#timer.unref();
  }

  /** Takes a new connection in, or ends it. */
  admit(socket: Socket): boolean {
    const address = socket.remoteAddress ?? "";
    const { perAddress, inAll, graceMs } = this.#limits;
    const own = this.#byAddress.get(address) ?? new Map<number, Stranger>();
    // A trusted proxy stands for many; whom it stands for is counted by request.
    if (!this.#isProxy(address)) {
      if (own.size >= perAddress) this.#makeRoom(own, own.size >= perAddress * BURST ? 0 : graceMs);
    }
    if (this.#count >= inAll) {
      for (const each of this.#byAddress.values()) this.#makeRoom(each, graceMs);
      if (this.#count >= inAll * BURST) {
        socket.destroy();
        return false;
      }
    }
    const port = socket.remotePort ?? 0;
    own.set(port, { socket, address, since: performance.now() });
    this.#byAddress.set(address, own);
    this.#count++;
    socket.on("close", () => this.#forget(address, port, socket));
    return true;
  }

  /** The connection now speaks TLS; `secured` is what requests on it are marked with. */
  secured(secured: Socket): void {
    const stranger = this.#find(secured);
    if (stranger !== undefined) stranger.secured = secured;
  }

  /** It came without a certificate where one is needed: to join, or for nothing. */
  joins(secured: Socket): void {
    const stranger = this.#find(secured);
    if (stranger === undefined) return;
    stranger.joining = { since: performance.now(), bytes: stranger.socket.bytesRead };
  }

  /** Its certificate is that of a node. */
  proven(secured: Socket): void {
    const stranger = this.#find(secured);
    if (stranger !== undefined) this.#forget(stranger.address, secured.remotePort ?? 0, stranger.socket);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #find(secured: Socket): Stranger | undefined {
    return this.#byAddress.get(secured.remoteAddress ?? "")?.get(secured.remotePort ?? 0);
  }

  #makeRoom(own: Map<number, Stranger>, graceMs: number): void {
    const now = performance.now();
    for (const [port, stranger] of own) {
      if (stranger.secured !== undefined && isKnown(stranger.secured)) {
        this.#forget(stranger.address, port, stranger.socket);
        continue;
      }
      if (now - stranger.since < graceMs) return;
      this.#forget(stranger.address, port, stranger.socket);
      stranger.socket.destroy();
      // Without grace, one goes for each that comes.
      if (graceMs === 0 || own.size < this.#limits.perAddress) return;
    }
  }

  #endLateJoins(): void {
    const now = performance.now();
    for (const own of this.#byAddress.values()) {
      for (const { socket, joining } of own.values()) {
        if (joining === undefined) continue;
        const late = now - joining.since > this.#limits.joinMs;
        if (late || socket.bytesRead - joining.bytes > this.#limits.joinBytes) socket.destroy();
      }
    }
  }

  #forget(address: string, port: number, socket: Socket): void {
    const own = this.#byAddress.get(address);
    if (own?.get(port)?.socket !== socket) return;
    own.delete(port);
    this.#count--;
    if (own.size === 0) this.#byAddress.delete(address);
  }
}
