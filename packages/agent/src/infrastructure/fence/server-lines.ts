// A line to each server, for the fence process. The agent renews the certificate: lines are opened anew with what is there.
import { AppError } from "@gpve/contracts/errors.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Channel } from "@gpve/kit/grpc/channel.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { AgentIdentity } from "../server-link/identity.ts";

export interface ServerLinesDeps {
  /** Of all servers that there are now. */
  readonly endpoints: () => readonly string[];
  readonly clock: Pick<Clock, "after">;
  /** undefined = there is none that is good, for now. */
  readonly identity: () => Promise<AgentIdentity | undefined>;
  readonly open: (url: string, identity: AgentIdentity) => Channel;
}

/** What is asked over an old line may still be answered. */
const LINGER_MS = 5_000;
/** The agent renews the certificate in between. */
const REOPEN_MS = 10 * 60_000;
/** While there are guests to lose. */
const KEEP_UP_MS = 5_000;

export class ServerLines {
  readonly #deps: ServerLinesDeps;
  #identity: AgentIdentity;
  #channels: ReadonlyMap<string, Channel>;

  constructor(deps: ServerLinesDeps, identity: AgentIdentity) {
    this.#deps = deps;
    this.#identity = identity;
    this.#channels = this.#open(new Map());
  }

  urls(): readonly string[] {
    return [...this.#channels.keys()];
  }

  transport(url: string): Channel["transport"] {
    const channel = this.#channels.get(url);
    if (channel === undefined) throw new AppError("internal.error", `no line to ${url}`);
    return channel.transport;
  }

  async reopen(): Promise<void> {
    const identity = await this.#deps.identity();
    if (identity === undefined) return;
    this.#identity = identity;
    this.#replace(this.#open(new Map()));
  }

  /** Servers may have come and gone. */
  follow(): void {
    const wanted = this.#deps.endpoints();
    if (wanted.join() !== this.urls().join()) this.#replace(this.#open(this.#channels));
  }

  /**
   * Connects those that are not: whoever turns to another server because the one before is away finds its line up, and
   * need not agree on keys with a busy server first.
   */
  async keepUp(): Promise<void> {
    await Promise.allSettled([...this.#channels.values()].map(async (channel) => channel.connect()));
  }

  /** Keeps lines up while they are needed, with the newest certificate, until the returned function is called. */
  keep(isNeeded: () => boolean, log: Logger): () => void {
    const stops = [
      this.#every(KEEP_UP_MS, () => {
        this.follow();
        if (isNeeded()) background(log, "lines to servers", this.keepUp());
      }),
      this.#every(REOPEN_MS, () => background(log, "new lines to servers", this.reopen())),
    ];
    return () => stops.forEach((stop) => stop());
  }

  close(): void {
    close(this.#channels);
  }

  #every(ms: number, work: () => void): () => void {
    const again = (): void => {
      work();
      stop = this.#deps.clock.after(ms, again);
    };
    let stop = this.#deps.clock.after(ms, again);
    return () => stop();
  }

  #open(kept: ReadonlyMap<string, Channel>): ReadonlyMap<string, Channel> {
    const { endpoints, open } = this.#deps;
    return new Map(endpoints().map((url) => [url, kept.get(url) ?? open(url, this.#identity)]));
  }

  #replace(next: ReadonlyMap<string, Channel>): void {
    const old = [...this.#channels].filter(([url, channel]) => next.get(url) !== channel);
    this.#channels = next;
    this.#deps.clock.after(LINGER_MS, () => close(new Map(old)));
  }
}

function close(channels: ReadonlyMap<string, Channel>): void {
  for (const channel of channels.values()) channel.close();
}
