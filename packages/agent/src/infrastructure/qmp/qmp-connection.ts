// One connection to one QMP monitor: greeting, capabilities, then commands matched to answers by id, and events.
// Commands may overlap. A time-out or an abort gives up waiting; a late answer is dropped by its id.
import type { Socket } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { LineFraming } from "./line-framing.ts";
import { readQmpMessage, type QmpGreeting } from "./qmp-messages.ts";
import type { QmpEvent } from "@gpve/domain/vm/qmp/qmp.ts";
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";
import { qmpCancelled, qmpLost, qmpRefused, qmpTimeout } from "@gpve/domain/vm/qmp/qmp-errors.ts";

export interface QmpConnectOptions {
  readonly path: string;
  /** Who is spoken to, as error texts name it: "VM 100". */
  readonly label: string;
  /** The guest's uid, when QEMU made the socket itself. */
  readonly ownerUid?: number;
  readonly clock?: Clock;
  /** For connecting and the greeting together; QEMU serves one client per monitor, others wait in line. */
  readonly connectTimeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: QmpEvent) => void;
  readonly maxLineBytes?: number;
}

export const DEFAULT_COMMAND_TIMEOUT_MS = 10_000;

interface Waiting {
  readonly command: string;
  readonly settle: (outcome: { value: unknown } | { error: AppError }) => void;
}

export class QmpConnection {
  readonly #socket: Socket;
  readonly #options: QmpConnectOptions;
  readonly #clock: Clock;
  readonly #framing: LineFraming;
  readonly #waiting = new Map<string, Waiting>();
  #nextId = 1;
  #greeting: QmpGreeting | undefined;
  #onGreeting: (() => void) | undefined;
  #end: { readonly reason: unknown } | undefined;
  /** Resolves when the connection has ended, with the reason if there is one. Never rejects. */
  readonly closed: Promise<unknown>;

  private constructor(socket: Socket, options: QmpConnectOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#framing = new LineFraming(options.maxLineBytes);
    this.closed = new Promise((resolve) => {
      socket.on("error", (err) => this.#finish(err));
      socket.on("close", () => {
        this.#finish(undefined);
        resolve(this.#end?.reason);
      });
    });
  }

  static async open(options: QmpConnectOptions): Promise<QmpConnection> {
    const timeoutMs = options.connectTimeoutMs ?? 5_000;
    // QEMU speaks first, perhaps before the connection is known here.
    const early: Uint8Array[] = [];
    let take = (bytes: Uint8Array): void => void early.push(new Uint8Array(bytes));
    const onData = (bytes: Uint8Array): void => take(bytes);
    const socket = await connectUnixSocket(options.path, { ...options, timeoutMs, onData });
    const connection = new QmpConnection(socket, options);
    take = (bytes) => connection.#read(bytes);
    for (const bytes of early) take(bytes);
    try {
      await connection.#greeted(timeoutMs);
      await connection.execute("qmp_capabilities", undefined, { timeoutMs });
    } catch (err) {
      connection.close();
      throw err;
    }
    return connection;
  }

  get greeting(): QmpGreeting {
    if (this.#greeting === undefined) throw new AppError("internal.error", "QMP was not greeted yet");
    return this.#greeting;
  }

  get isOpen(): boolean {
    return this.#end === undefined;
  }

  execute(
    command: string,
    args?: Readonly<Record<string, unknown>>,
    options: CallOptions = {},
  ): Promise<unknown> {
    const { label } = this.#options;
    const { timeoutMs = DEFAULT_COMMAND_TIMEOUT_MS, signal } = options;
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(qmpCancelled(label, command));
        return;
      }
      if (this.#end !== undefined) {
        reject(qmpLost(label, command, this.#end.reason));
        return;
      }
      const id = `gpve-${this.#nextId++}`;
      const settle: Waiting["settle"] = (outcome) => {
        this.#waiting.delete(id);
        stopTimer();
        signal?.removeEventListener("abort", onAbort);
        if ("error" in outcome) reject(outcome.error);
        else resolve(outcome.value);
      };
      const onAbort = (): void => settle({ error: qmpCancelled(label, command) });
      const stopTimer = this.#clock.after(timeoutMs, () =>
        settle({ error: qmpTimeout(label, command, timeoutMs) }),
      );
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#waiting.set(id, { command, settle });
      this.#corkForNow();
      this.#socket.write(`${JSON.stringify({ execute: command, ...given({ arguments: args }), id })}\n`);
    });
  }

  /** Commands of one moment leave in one write, and wake QEMU once. */
  #corkForNow(): void {
    if (this.#socket.writableCorked > 0) return;
    this.#socket.cork();
    process.nextTick(() => this.#socket.uncork());
  }

  close(): void {
    this.#socket.destroy();
    this.#finish(undefined);
  }

  #greeted(timeoutMs: number): Promise<void> {
    const { label, signal } = this.#options;
    return new Promise((resolve, reject) => {
      const finish = (error?: AppError): void => {
        stopTimer();
        signal?.removeEventListener("abort", onAbort);
        if (error === undefined) resolve();
        else reject(error);
      };
      const onAbort = (): void => finish(qmpCancelled(label, "greeting"));
      const stopTimer = this.#clock.after(timeoutMs, () => finish(qmpTimeout(label, "greeting", timeoutMs)));
      signal?.addEventListener("abort", onAbort, { once: true });
      this.#onGreeting = () => finish();
      void this.closed.then((reason) => finish(qmpLost(label, "greeting", reason)));
      if (this.#greeting !== undefined) finish();
    });
  }

  #read(chunk: Uint8Array): void {
    try {
      for (const line of this.#framing.push(chunk)) this.#take(line);
    } catch (err) {
      // After a line nobody understands the next one cannot be trusted either.
      this.#socket.destroy();
      this.#finish(err);
    }
  }

  #take(line: string): void {
    const message = readQmpMessage(line);
    if (message.kind === "event") {
      this.#options.onEvent?.(message.event);
      return;
    }
    if (message.kind === "greeting") {
      this.#greeting = message.greeting;
      this.#onGreeting?.();
      return;
    }
    const waiting = this.#waiting.get(message.id);
    if (waiting === undefined) return; // given up before
    if (message.error === undefined) waiting.settle({ value: message.value });
    else {
      const { kind, text } = message.error;
      waiting.settle({ error: qmpRefused(this.#options.label, waiting.command, kind, text) });
    }
  }

  #finish(reason: unknown): void {
    if (this.#end !== undefined) return;
    this.#end = { reason };
    this.#framing.reset();
    for (const { command, settle } of this.#waiting.values())
      settle({ error: qmpLost(this.#options.label, command, reason) });
  }
}
