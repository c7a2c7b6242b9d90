// A unix socket that a guest may open: each of its connections is carried to the other end of a move.
import { mkdir, rm } from "node:fs/promises";
import { createServer, type Socket } from "node:net";
import { join as joinPath } from "node:path";
import type { Duplex } from "node:stream";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { ForwardedSocket } from "@gpve/domain/guest/move-channel.ts";
import { ignore } from "@gpve/kit/background.ts";
import { type LineWindow, sendWithin } from "./line-window.ts";
import { join, joinUrgently, RAM_CHANNEL } from "./move-wire.ts";

export interface DialedLine {
  readonly line: Duplex;
  /** undefined = the other end tells nothing of what it takes. */
  readonly window?: LineWindow;
}

/** `folder`: one of ours, near the root: a socket's path may have 107 bytes. */
export async function forwardSocket(
  folder: string,
  process: GuestProcess,
  channel: string,
  dial: () => Promise<DialedLine>,
): Promise<ForwardedSocket> {
  const path = joinPath(folder, process.id, channel);
  await mkdir(joinPath(folder, process.id), { recursive: true, mode: 0o711 });
  await rm(path, { force: true });
  const open = new Set<Socket>();
  const hangUp = (): void => {
    for (const guest of open) guest.destroy();
  };
  const allowance = new Allowance(hangUp);
  // One after the other: the first of a guest's connections is the one that leads the others.
  let turn: Promise<unknown> = Promise.resolve();
  const server = createServer({ allowHalfOpen: true, pauseOnConnect: true }, (guest) => {
    open.add(guest);
    guest.on("error", (err) => ignore(err, "the guest says itself what it makes of it"));
    guest.on("close", () => open.delete(guest));
    turn = turn.then(async () => {
      try {
        const { line, window } = await dial();
        if (channel === RAM_CHANNEL) {
          guest.on("data", (chunk: Buffer) => allowance.use(chunk.length));
          joinUrgently(guest, line, (from, to) => sendWithin(from, to, window));
        } else join(guest, line);
      } catch (err) {
        guest.destroy(err instanceof Error ? err : new Error(messageOf(err)));
      }
    });
  });
  await new Promise<void>((listening, failed) => {
    server.once("error", failed);
    server.listen(path, listening);
  });
  // An agent that was killed in the midst of a move has left the socket of that one where this one is to be.
  await process.forbidFile(path).catch((err: unknown) => ignore(err, "mostly there is none"));
  await process.allowFile({ path, access: "rw" });
  return {
    path,
    allow: (bytes) => allowance.begin(bytes),
    get isExceeded() {
      return allowance.isExceeded;
    },
    close: async () => {
      server.close();
      hangUp();
      if (!process.hasExited)
        await process.forbidFile(path).catch((err: unknown) => ignore(err, "the guest may be gone"));
      await rm(path, { force: true });
    },
  };
}

/** How much may still be sent, once somebody has said so. */
class Allowance {
  readonly #onExceeded: () => void;
  #left = Number.POSITIVE_INFINITY;

  constructor(onExceeded: () => void) {
    this.#onExceeded = onExceeded;
  }

  get isExceeded(): boolean {
    return this.#left < 0;
  }

  begin(bytes: number): void {
    this.#left = bytes;
  }

  use(bytes: number): void {
    this.#left -= bytes;
    if (this.isExceeded) this.#onExceeded();
  }
}
