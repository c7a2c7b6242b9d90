// Whoever comes by h2 without the certificate of a node can only join: one request, for which it has a time and a number
// of bytes in all.
import type { Socket } from "node:net";
import type { Clock } from "@gpve/kit/clock.ts";

export interface JoinLimits {
  readonly ms: number;
  readonly bytes: number;
}

export const JOIN_LIMITS: JoinLimits = { ms: 10_000, bytes: 64 * 1024 };

const CHECK_EVERY_MS = 250;

export class Joins {
  readonly #limits: JoinLimits;
  readonly #clock: Clock;
  readonly #open = new Map<Socket, { readonly since: number; readonly bytes: number }>();
  #stopTimer: (() => void) | undefined;

  constructor(limits: JoinLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /** The connection below TLS: its bytes are all that the peer sent. */
  begin(connection: Socket): void {
    this.#open.set(connection, { since: this.#clock.monotonic(), bytes: connection.bytesRead });
    connection.once("close", () => this.#open.delete(connection));
    this.#stopTimer ??= this.#clock.after(CHECK_EVERY_MS, () => this.#check());
  }

  close(): void {
    this.#stopTimer?.();
  }

  #check(): void {
    const { ms, bytes } = this.#limits;
    const now = this.#clock.monotonic();
    for (const [connection, begun] of this.#open) {
      if (now - begun.since >= ms || connection.bytesRead - begun.bytes > bytes) connection.destroy();
    }
    this.#stopTimer =
      this.#open.size === 0 ? undefined : this.#clock.after(CHECK_EVERY_MS, () => this.#check());
  }
}
