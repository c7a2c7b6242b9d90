// The agent's side of a process of ours that outlives it: has it running where it is wanted, links to it once for all who ask, and
// knows what it answers to whom. One JSON object on a line, in both directions.
import type { Socket } from "node:net";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestProcesses } from "@gpve/domain/guest/guest-processes.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { onLines, sendLine } from "./json-lines.ts";

export interface ProcessLinkDeps {
  readonly id: string;
  /** Whom errors name. */
  readonly label: string;
  readonly processes: Pick<GuestProcesses, "get" | "forget">;
  readonly clock: Clock;
  readonly start: () => ReturnType<GuestProcesses["start"]>;
  /** It speaks first: whoever is linked to it has heard that. */
  readonly greets?: true;
  /** All that it says and that is no answer. */
  readonly said: (message: unknown) => void;
  readonly closed: () => void;
}

interface Answer {
  readonly ack: number;
}

const LINK_MS = 30_000;

export class ProcessLink<Ack extends Answer> {
  readonly #deps: ProcessLinkDeps;
  readonly #acks = new Map<number, (ack: Ack) => void>();
  #link: Socket | undefined;
  #linking: Promise<Socket> | undefined;
  #ending: Promise<void> = Promise.resolve();
  #seq = 0;

  constructor(deps: ProcessLinkDeps) {
    this.#deps = deps;
  }

  get isOpen(): boolean {
    return this.#link !== undefined;
  }

  /** Somebody waits for it. */
  get isBusy(): boolean {
    return this.#linking !== undefined || this.#acks.size > 0;
  }

  get runs(): boolean {
    const running = this.#deps.processes.get(this.#deps.id);
    return running !== undefined && !running.hasExited;
  }

  async linked(): Promise<void> {
    await this.#linked();
  }

  /** Where there is no link, nobody hears it. */
  tell(message: object): void {
    if (this.#link !== undefined) sendLine(this.#link, message);
  }

  /** undefined = there is no answer. */
  async ask(words: (seq: number) => object, withinMs: number): Promise<Ack | undefined> {
    const link = await this.#linked();
    const seq = ++this.#seq;
    const { promise, resolve } = Promise.withResolvers<Ack | undefined>();
    const giveUp = (): void => resolve(undefined);
    this.#acks.set(seq, resolve);
    link.once("close", giveUp);
    const stopWaiting = this.#deps.clock.after(withinMs, giveUp);
    sendLine(link, words(seq));
    const ack = await promise;
    stopWaiting();
    link.off("close", giveUp);
    this.#acks.delete(seq);
    return ack;
  }

  /** The agent goes; the process stays. */
  leave(): void {
    this.#link?.destroy();
  }

  /** Nobody wants it any more; who does afterwards gets another one. */
  async end(): Promise<void> {
    this.#ending = this.#end();
    await this.#ending;
  }

  async #end(): Promise<void> {
    const { id, processes } = this.#deps;
    this.#link?.destroy();
    const running = processes.get(id);
    if (running === undefined) return;
    await running.stop();
    await processes.forget(id).catch((err: unknown) => ignore(err, "it goes with the next start"));
  }

  #linked(): Promise<Socket> {
    if (this.#link !== undefined) return Promise.resolve(this.#link);
    this.#linking ??= this.#connect().finally(() => {
      this.#linking = undefined;
    });
    return this.#linking;
  }

  async #connect(): Promise<Socket> {
    const { id, label, processes, clock, start, greets, said, closed } = this.#deps;
    await this.#ending.catch((err: unknown) => ignore(err, "whoever ended it is told"));
    const running = processes.get(id);
    const process = running === undefined || running.hasExited ? await start() : running;
    const link = await connectUnixSocket(process.socketPath("agent"), { timeoutMs: LINK_MS, clock });
    const { promise: opened, resolve, reject } = Promise.withResolvers<Socket>();
    const open = (): void => {
      this.#link = link;
      resolve(link);
    };
    link.on("error", () => link.destroy());
    link.once("close", () => {
      reject(new AppError("request.timeout", `${label} does not answer`));
      if (this.#link === link) this.#link = undefined;
      closed();
    });
    onLines(link, (message) => {
      if (isAnswer(message)) this.#acks.get(message.ack)?.(message as Ack);
      else said(message);
      if (greets === true && !link.destroyed) open();
    });
    if (greets !== true) open();
    const stopWaiting = clock.after(LINK_MS, () => {
      if (this.#link !== link) link.destroy();
    });
    return opened.finally(stopWaiting);
  }
}

function isAnswer(message: unknown): message is Answer {
  return typeof message === "object" && message !== null && "ack" in message;
}
