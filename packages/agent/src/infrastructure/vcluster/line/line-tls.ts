// A line between two processes that know one secret, made for one generation and told by agents that have proved to each other who
// they are. TLS asks for it both ways, so neither end needs keys of its node; each connection has keys of its own besides.
import type { Duplex } from "node:stream";
import type { TlsOptions, TLSSocket } from "node:tls";
import { KEEP_ALIVE_MS } from "../../move/move-wire.ts";

export const LINE_TLS = {
  minVersion: "TLSv1.3",
  // A secret of this kind goes with SHA-256 and no other sum.
  ciphers: "TLS_AES_128_GCM_SHA256",
} as const satisfies TlsOptions;

export function secretBytes(secret: string): Buffer {
  return Buffer.from(secret, "hex");
}

export function keepLive(socket: TLSSocket): void {
  socket.setNoDelay(true);
  // The other end may lose its power without a word.
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
}

/** Both ends go with either. */
export function bind(a: Duplex, b: Duplex): void {
  for (const [one, other] of [
    [a, b],
    [b, a],
  ] as const) {
    one.on("error", () => one.destroy());
    one.once("close", () => other.destroy());
    if (one.destroyed) other.destroy();
  }
}
