// Speaking to a running VM's QEMU. Implemented by the agent's QMP client and by fakes.
import type { CallOptions } from "../../guest/guest-processes.ts";
import type { QmpArguments, QmpCommandName, QmpResult } from "./qmp-schema.ts";

export interface QmpEvent {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** QEMU's own time, milliseconds since the epoch. */
  readonly at: number;
}

export interface QmpEventListener {
  readonly onEvent: (event: QmpEvent) => void;
  /** The connection is back after a gap: events may have been missed, ask for the state. */
  readonly onReset?: () => void;
  /** QEMU is gone for good. */
  readonly onEnd?: () => void;
}

export interface QmpEventSource {
  /** Returns the function that stops listening. */
  listen(listener: QmpEventListener): () => void;
  /** Events from now on; ends when QEMU does or the signal says so. Slow readers keep a queue. */
  stream(signal?: AbortSignal): AsyncGenerator<QmpEvent, void, undefined>;
  /**
   * Resolves with what `match` makes of an event; what it throws rejects. Start it before the command that causes
   * the event. `afterGap` is asked when events may have been missed.
   */
  waitFor<T>(
    what: string,
    match: (event: QmpEvent) => T | undefined,
    options?: CallOptions & { readonly afterGap?: () => Promise<T | undefined> },
  ): { readonly result: Promise<T>; readonly cancel: () => void };
}

type Call<K extends QmpCommandName> =
  QmpArguments<K> extends undefined
    ? [args?: undefined, options?: CallOptions]
    : [args: QmpArguments<K>, options?: CallOptions];

export interface Qmp {
  /** Whom errors name: "VM 100". */
  readonly label: string;
  readonly clock: { monotonic(): number; sleep(ms: number, signal?: AbortSignal): Promise<void> };
  readonly events: QmpEventSource;
  /** Rejects with qmp.failed (QEMU refused), qmp.disconnected, request.timeout (default 10 s) or operation.cancelled. */
  execute<K extends QmpCommandName>(command: K, ...call: Call<K>): Promise<QmpResult<K>>;
  /** Any command, unchecked: for what the schema does not list. */
  raw(command: string, args?: Readonly<Record<string, unknown>>, options?: CallOptions): Promise<unknown>;
}

export type QmpCall<K extends QmpCommandName> = Call<K>;
