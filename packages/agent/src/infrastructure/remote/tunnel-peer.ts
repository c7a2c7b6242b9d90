// The line to a node of another cluster that a running VM is sent by: websockets that its `mtunnel` has offered. One of them
// leads, by lines of JSON; the others carry what QEMU sends.
import type { Duplex } from "node:stream";
import { createWebSocketStream, type WebSocket } from "ws";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type { ForwardedSocket } from "@gpve/domain/guest/move-channel.ts";
import type { RemoteOffer, RemotePeer } from "@gpve/domain/vm/migrate/remote-cluster.ts";
import { ignore } from "@gpve/kit/background.ts";
import { forwardSocket } from "../move/forward-socket.ts";
import { readLine, writeLine } from "../move/move-wire.ts";

type Dial = (channel: string) => Promise<WebSocket>;

export class TunnelPeer implements RemotePeer {
  readonly #dial: Dial;
  readonly #lead: Duplex;
  readonly #folder: string;
  readonly #lost = new AbortController();
  #isClosed = false;

  private constructor(dial: Dial, lead: Duplex, folder: string) {
    this.#dial = dial;
    this.#lead = lead;
    this.#folder = folder;
    // A websocket that was closed leaves its stream half open.
    for (const event of ["end", "close"])
      lead.on(event, () => {
        if (!this.#isClosed) this.#lost.abort(hungUp());
        lead.destroy();
      });
  }

  static async connect(dial: Dial, folder: string): Promise<TunnelPeer> {
    return new TunnelPeer(dial, streamOf(await dial("lead")), folder);
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async start(offer: RemoteOffer, signal: AbortSignal): Promise<void> {
    const hangUp = (): void => void this.#lead.destroy();
    signal.addEventListener("abort", hangUp, { once: true });
    if (signal.aborted) hangUp();
    try {
      await this.#ask({ start: offer });
    } finally {
      signal.removeEventListener("abort", hangUp);
    }
  }

  commit(): Promise<void> {
    return this.#ask({ commit: true });
  }

  async #ask(message: object): Promise<void> {
    this.#lead.pause();
    writeLine(this.#lead, message);
    const answer = (await readLine(this.#lead)) as { ok?: unknown; error?: unknown } | undefined;
    // Somebody must read, or nobody is told when the line is cut.
    this.#lead.resume();
    if (answer?.ok === true) return;
    if (typeof answer?.error !== "string") throw hungUp();
    throw new AppError("operation.failed", `the other cluster says: ${answer.error}`, {
      pveStatus: 500,
    });
  }

  forward(process: GuestProcess, channel: string): Promise<ForwardedSocket> {
    return forwardSocket(this.#folder, process, channel, async () => ({
      line: streamOf(await this.#dial(channel)),
    }));
  }

  close(): void {
    this.#isClosed = true;
    this.#lead.destroy();
  }
}

function streamOf(ws: WebSocket): Duplex {
  const stream = createWebSocketStream(ws);
  stream.on("error", (err) => ignore(err, "whoever uses the line is told that it has ended"));
  return stream;
}

function hungUp(): AppError {
  return new AppError("node.unavailable", "the other cluster hung up");
}
