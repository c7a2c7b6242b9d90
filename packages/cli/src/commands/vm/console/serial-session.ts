// A guest's serial line in the terminal: PVE's framing (one line of login, then `0:LENGTH:KEYS`, `1:COLUMNS:ROWS:`,
// `2` to stay alive), until the guest ends, the escape key is pressed, or a script has what it came for.
import type { ConsoleOffer } from "@gpve/client/pve-client.ts";
import type { MessageSocket } from "@gpve/client/transport.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Terminal } from "../../../io.ts";

/** Ctrl-], as in telnet and virsh. */
export const ESCAPE = 0x1d;
const KEEP_ALIVE_MS = 30_000;
const MAX_FRAME_BYTES = 16 * 1024;
const MEMORY_CHARACTERS = 64 * 1024;

export interface SerialOptions {
  readonly socket: MessageSocket;
  readonly offer: Pick<ConsoleOffer, "user" | "ticket">;
  readonly terminal: Terminal;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Sends nothing before the guest has said this. */
  readonly when?: string;
  /** Ends when the guest has said this after all input was sent. */
  readonly until?: string;
  /** Pipes only: how long the guest must be silent after the end of the input. */
  readonly quietMs: number;
  readonly deadlineMs?: number;
  /** The key that leaves, on a terminal; 0: none. */
  readonly escape?: number;
}

/** How it ended: the guest (or another console) closed it, or the person left. */
export type SerialEnd = "closed" | "left" | "said" | "quiet";

export async function serialSession(options: SerialOptions): Promise<SerialEnd> {
  const { socket, terminal, clock, signal, escape: leave = ESCAPE } = options;
  const heard = new Heard();
  const frame = (keys: Uint8Array): Promise<void> =>
    socket.send(Buffer.concat([Buffer.from(`0:${keys.length}:`), keys]));
  const tellSize = (): void => {
    const size = terminal.size();
    if (size !== undefined) void socket.send(`1:${size.columns}:${size.rows}:`).catch(() => undefined);
  };

  const listening = async (): Promise<SerialEnd> => {
    let welcome = Buffer.alloc(0);
    for await (const message of socket.messages) {
      let text = message;
      if (!heard.isOpen) {
        welcome = Buffer.concat([welcome, message]);
        if (welcome.length < 2) continue;
        if (welcome.toString("latin1", 0, 2) !== "OK")
          throw new AppError("auth.failed", "the console does not know us");
        heard.open();
        tellSize();
        text = welcome.subarray(2);
      }
      if (text.length === 0) continue;
      await terminal.write(text);
      heard.add(text, clock.now());
    }
    if (heard.isOpen) return "closed";
    throw new AppError("auth.failed", "the console was closed before it began");
  };

  const typing = async (): Promise<SerialEnd> => {
    await heard.opened;
    if (options.when !== undefined) await heard.says(options.when);
    let isFirst = true;
    for await (const keys of terminal.input) {
      // Only an answer counts for `until`, unless nothing was asked.
      if (isFirst) heard.forget();
      isFirst = false;
      const escape = terminal.isTTY && leave !== 0 ? keys.indexOf(leave) : -1;
      const sent = escape < 0 ? keys : keys.subarray(0, escape);
      for (let at = 0; at < sent.length; at += MAX_FRAME_BYTES)
        await frame(sent.subarray(at, at + MAX_FRAME_BYTES));
      if (escape >= 0) return "left";
    }
    if (options.until !== undefined) {
      await heard.says(options.until);
      return "said";
    }
    heard.touch(clock.now());
    for (;;) {
      const rest = heard.lastAt + options.quietMs - clock.now();
      if (rest <= 0) return "quiet";
      await clock.sleep(rest, signal);
    }
  };

  const stopResize = terminal.onResize(tellSize);
  const stopTimers = [keepAlive(clock, socket)];
  const ends = [listening(), typing(), interrupted(signal)];
  if (options.deadlineMs !== undefined) {
    const late = Promise.withResolvers<never>();
    stopTimers.push(
      clock.after(options.deadlineMs, () => late.reject(new AppError("request.timeout", "it took too long"))),
    );
    ends.push(late.promise);
  }
  // The loser of the race fails when its stream is taken away: that is no news.
  for (const end of ends) end.catch(() => undefined);
  try {
    await socket.send(`${options.offer.user}:${options.offer.ticket}\n`);
    return await Promise.race(ends);
  } finally {
    stopResize();
    for (const stop of stopTimers) stop();
    socket.close();
    terminal.close();
  }
}

function keepAlive(clock: Clock, socket: MessageSocket): () => void {
  let stop = (): void => undefined;
  const arm = (): void => {
    stop = clock.after(KEEP_ALIVE_MS, () => {
      void socket.send("2").catch(() => undefined);
      arm();
    });
  };
  arm();
  return () => stop();
}

function interrupted(signal: AbortSignal): Promise<SerialEnd> {
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve("left"), { once: true });
    if (signal.aborted) resolve("left");
  });
}

/** What the guest has said lately, and who waits for a word of it. */
class Heard {
  isOpen = false;
  lastAt = 0;
  readonly #opened = Promise.withResolvers<void>();
  #text = "";
  #wanted: { readonly text: string; readonly found: () => void } | undefined;

  get opened(): Promise<void> {
    return this.#opened.promise;
  }

  open(): void {
    this.isOpen = true;
    this.#opened.resolve();
  }

  add(bytes: Uint8Array, now: number): void {
    this.lastAt = now;
    this.#text = (this.#text + Buffer.from(bytes).toString("latin1")).slice(-MEMORY_CHARACTERS);
    this.#look();
  }

  touch(now: number): void {
    this.lastAt = now;
  }

  forget(): void {
    this.#text = "";
  }

  says(text: string): Promise<void> {
    return new Promise((found) => {
      this.#wanted = { text: Buffer.from(text).toString("latin1"), found };
      this.#look();
    });
  }

  #look(): void {
    if (this.#wanted === undefined || !this.#text.includes(this.#wanted.text)) return;
    this.#wanted.found();
    this.#wanted = undefined;
  }
}
