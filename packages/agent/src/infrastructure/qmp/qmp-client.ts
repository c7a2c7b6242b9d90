// The two monitors of one VM: one for commands, one for events, so that a slow command never delays an event. Both
// come back after a lost connection. When nobody listens any more QEMU has ended, and the client ends too.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import { childSpan } from "@gpve/kit/telemetry/span.ts";
import { isNobodyListening } from "@gpve/kit/unix-socket.ts";
import type { Qmp, QmpCall } from "@gpve/domain/vm/qmp/qmp.ts";
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";
import { QmpConnection } from "./qmp-connection.ts";
import type { QmpGreeting } from "./qmp-messages.ts";
import { qmpCancelled, qmpLost } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { QmpEvents } from "./qmp-events.ts";
import type { QmpCommandName, QmpResult } from "@gpve/domain/vm/qmp/qmp-schema.ts";

export interface QmpClientOptions {
  readonly commandPath: string;
  readonly eventPath: string;
  readonly label: string;
  readonly ownerUid?: number;
  readonly clock?: Clock;
  readonly connectTimeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly maxLineBytes?: number;
}

const RECONNECT_DELAYS_MS = [0, 20, 100, 500, 1_000, 2_000];

export class QmpClient implements Qmp {
  readonly label: string;
  readonly clock: Clock;
  readonly events: QmpEvents;
  readonly #options: QmpClientOptions;
  #commands: QmpConnection | undefined;
  #connecting: Promise<QmpConnection> | undefined;
  #eventLink: QmpConnection | undefined;
  #ended = false;
  #resolveEnded: () => void = () => undefined;
  readonly #endSignal = new AbortController();
  /** Resolves once QEMU has gone, or the client was closed. */
  readonly ended: Promise<void>;

  private constructor(options: QmpClientOptions) {
    this.#options = options;
    this.label = options.label;
    this.clock = options.clock ?? systemClock;
    this.events = new QmpEvents(this.clock);
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve;
    });
  }

  /** Connects both monitors, at the same time. */
  static async open(options: QmpClientOptions): Promise<QmpClient> {
    const client = new QmpClient(options);
    const events = client.#connectEvents(options.signal);
    const commands = client.#connection(options.signal);
    const [heard, spoken] = await Promise.allSettled([events, commands]);
    if (heard.status === "fulfilled") client.#watch(heard.value);
    for (const end of [heard, spoken]) {
      if (end.status === "fulfilled") continue;
      client.close();
      throw end.reason;
    }
    return client;
  }

  /** For a QEMU that does not answer now: both monitors are tried until it does, or has gone. */
  static late(options: QmpClientOptions): QmpClient {
    const client = new QmpClient(options);
    void client.#comeBack();
    return client;
  }

  get greeting(): QmpGreeting | undefined {
    return this.#commands?.greeting ?? this.#eventLink?.greeting;
  }

  async execute<K extends QmpCommandName>(command: K, ...[args, options]: QmpCall<K>): Promise<QmpResult<K>> {
    return (await this.raw(
      command,
      args as Readonly<Record<string, unknown>> | undefined,
      options,
    )) as QmpResult<K>;
  }

  async raw(
    command: string,
    args?: Readonly<Record<string, unknown>>,
    options?: CallOptions,
  ): Promise<unknown> {
    if (this.#ended) throw qmpLost(this.label, command);
    // Only connecting is tried again, never the command: QEMU may have carried it out before the connection broke.
    return childSpan(`qmp ${command}`, { "gpve.guest": this.label }, async () => {
      const connection = await this.#connection(options?.signal);
      return connection.execute(command, args, options);
    });
  }

  close(): void {
    this.#end();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#endSignal.abort(new AppError("operation.cancelled", `the monitor of ${this.label} was closed`));
    this.#commands?.close();
    this.#eventLink?.close();
    this.events.end();
    this.#resolveEnded();
  }

  /** One attempt serves all who wait: whoever gives up leaves it to the others. */
  async #connection(signal?: AbortSignal): Promise<QmpConnection> {
    if (this.#commands?.isOpen === true) return this.#commands;
    this.#connecting ??= this.#open(this.#options.commandPath)
      .then((connection) => {
        if (this.#ended) connection.close();
        this.#commands = connection;
        return connection;
      })
      .finally(() => {
        this.#connecting = undefined;
      });
    return await unlessAborted(this.#connecting, this.label, signal);
  }

  #connectEvents(signal?: AbortSignal): Promise<QmpConnection> {
    return this.#open(this.#options.eventPath, signal, true);
  }

  async #open(path: string, signal?: AbortSignal, withEvents = false): Promise<QmpConnection> {
    const { label, ownerUid, connectTimeoutMs, maxLineBytes } = this.#options;
    try {
      return await QmpConnection.open({
        path,
        label,
        clock: this.clock,
        ...given({ ownerUid, connectTimeoutMs, maxLineBytes, signal }),
        ...(withEvents ? { onEvent: (event) => this.events.emit(event) } : {}),
      });
    } catch (err) {
      if (!isNobodyListening(err)) throw err;
      throw new AppError("qmp.disconnected", `${label} not running`, {
        cause: err,
        pveStatus: 500,
        data: { path },
      });
    }
  }

  #watch(link: QmpConnection): void {
    this.#eventLink = link;
    void link.closed.then(() => this.#comeBack());
  }

  async #comeBack(): Promise<void> {
    for (let attempt = 0; !this.#ended; attempt++) {
      const delay = RECONNECT_DELAYS_MS[attempt] ?? RECONNECT_DELAYS_MS.at(-1) ?? 0;
      try {
        if (delay > 0) await this.clock.sleep(delay, this.#endSignal.signal);
        const link = await this.#connectEvents(this.#endSignal.signal);
        this.#watch(link);
        this.events.reset();
        return;
      } catch (err) {
        // Nobody listens: QEMU is gone. Anything else may pass.
        if (err instanceof AppError && err.code === "qmp.disconnected" && err.data["path"] !== undefined)
          break;
      }
    }
    this.#end();
  }
}

function unlessAborted<T>(work: Promise<T>, label: string, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(qmpCancelled(label, "greeting"));
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    void work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
