// Lines from this node's stores to their standbys. One that was open is opened again whenever it is cut, by what was told when an
// agent was there; one that never was is the agent's to think about.
import { existsSync } from "node:fs";
import { connect, type TLSSocket } from "node:tls";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { readLine } from "../../move/move-wire.ts";
import { connectEnd } from "./line-end.ts";
import type { DialWords } from "./line-messages.ts";
import { bind, keepLive, LINE_TLS, secretBytes } from "./line-tls.ts";

export interface LineDialsDeps {
  readonly clock: Clock;
  readonly say: (line: string) => void;
  /** That one is open, is not, or is none any more. */
  readonly changed: (id: string) => void;
}

/** Where nobody answers for so long, something on the way lets nothing through. Writes wait meanwhile. */
const REACH_MS = 4_000;
const AGAIN_MS = 500;

interface Dial {
  readonly words: DialWords;
  readonly stop: AbortController;
  isOpen: boolean;
}

export class LineDials {
  readonly #deps: LineDialsDeps;
  readonly #dials = new Map<string, Dial>();

  constructor(deps: LineDialsDeps) {
    this.#deps = deps;
  }

  /** Whether each is open. */
  seen(): Record<string, boolean> {
    return Object.fromEntries([...this.#dials].map(([id, { isOpen }]) => [id, isOpen]));
  }

  /** Whether it is open; undefined = there is none. */
  isOpen(id: string): boolean | undefined {
    return this.#dials.get(id)?.isOpen;
  }

  /** Resolves when it is open; where it does not open there is none. */
  async dial(words: DialWords): Promise<void> {
    this.drop(words.id);
    const dial: Dial = { words, stop: new AbortController(), isOpen: false };
    this.#dials.set(words.id, dial);
    try {
      const { over } = await this.#open(dial);
      void this.#keep(dial, over);
    } catch (err) {
      if (this.#dials.get(words.id) === dial) this.drop(words.id);
      throw err;
    }
  }

  drop(id: string): void {
    const dial = this.#dials.get(id);
    if (dial === undefined) return;
    this.#dials.delete(id);
    dial.stop.abort();
    this.#deps.changed(id);
  }

  close(): void {
    for (const id of this.#dials.keys()) this.drop(id);
  }

  async #keep(dial: Dial, first: Promise<void>): Promise<void> {
    const { clock, say } = this.#deps;
    const { id, path } = dial.words;
    const { signal } = dial.stop;
    let over: Promise<void> | undefined = first;
    let told = "";
    while (!signal.aborted) {
      try {
        await over;
        await clock.sleep(AGAIN_MS, signal);
        // Of a store that is closed, or is being started again.
        over = existsSync(path) ? (await this.#open(dial)).over : undefined;
        told = "";
      } catch (err) {
        over = undefined;
        if (signal.aborted || messageOf(err) === told) continue;
        told = messageOf(err);
        say(`${id}: ${told}`);
      }
    }
  }

  /** Resolves when it is open. `over` does when it is cut. */
  async #open(dial: Dial): Promise<{ readonly over: Promise<void> }> {
    const { id, path } = dial.words;
    const { signal } = dial.stop;
    const there = await this.#reach(dial);
    const here = connectEnd(path);
    bind(there, here);
    const closed = new Promise<void>((resolve) => here.once("close", () => resolve()));
    await new Promise<void>((resolve, reject) => {
      here.once("connect", resolve);
      here.once("close", () => reject(new AppError("store.unavailable", "the store does not take the line")));
    });
    there.pipe(here).pipe(there);
    const hangUp = (): void => void there.destroy();
    signal.addEventListener("abort", hangUp, { once: true });
    if (signal.aborted) hangUp();
    dial.isOpen = true;
    this.#deps.changed(id);
    const over = closed.then(() => {
      signal.removeEventListener("abort", hangUp);
      dial.isOpen = false;
      this.#deps.changed(id);
    });
    return { over };
  }

  /** Who is there has said that the standby takes it. */
  async #reach({ words, stop }: Dial): Promise<TLSSocket> {
    const { id, address, place } = words;
    const socket = connect({
      ...LINE_TLS,
      host: address,
      port: place.port,
      // Whoever knows the secret is who was asked.
      checkServerIdentity: () => undefined,
      pskCallback: () => ({ identity: id, psk: secretBytes(place.secret) }),
    });
    let why = "nobody answers there";
    socket.on("error", (err) => {
      why = err.message;
      socket.destroy();
    });
    const giveUp = (): void => void socket.destroy();
    const stopTimer = this.#deps.clock.after(REACH_MS, giveUp);
    stop.signal.addEventListener("abort", giveUp, { once: true });
    try {
      keepLive(socket);
      const { ok } = ((await readLine(socket)) ?? {}) as { readonly ok?: unknown };
      if (ok === true && !stop.signal.aborted) return socket;
      const at = `${address}:${place.port}`;
      if (ok === false) throw new AppError("store.unavailable", `the standby at ${at} takes no line now`);
      throw new AppError("node.unavailable", `no line can be led to ${at}: ${why}`);
    } catch (err) {
      socket.destroy();
      throw err;
    } finally {
      stopTimer();
      stop.signal.removeEventListener("abort", giveUp);
    }
  }
}
