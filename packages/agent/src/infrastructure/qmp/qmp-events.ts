// Who listens to a VM's events. QEMU keeps no history: when the connection was away, listeners are told with a
// `reset` so that they ask for the state instead of waiting for an event that has passed.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { QmpEvent, QmpEventListener, QmpEventSource } from "@gpve/domain/vm/qmp/qmp.ts";
import type { CallOptions } from "@gpve/domain/guest/guest-processes.ts";

export class QmpEvents implements QmpEventSource {
  readonly #clock: Clock;
  readonly #listeners = new Set<QmpEventListener>();
  #ended = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  listen(listener: QmpEventListener): () => void {
    if (this.#ended) listener.onEnd?.();
    else this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  async *stream(signal?: AbortSignal): AsyncGenerator<QmpEvent, void, undefined> {
    const queue: QmpEvent[] = [];
    let done = signal?.aborted ?? false;
    let wake: () => void = () => undefined;
    const stop = this.listen({
      onEvent: (event) => {
        queue.push(event);
        wake();
      },
      onEnd: () => finish(),
    });
    const finish = (): void => {
      done = true;
      wake();
    };
    signal?.addEventListener("abort", finish, { once: true });
    try {
      for (;;) {
        const event = queue.shift();
        if (event !== undefined) yield event;
        else if (done) return;
        else
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
      }
    } finally {
      stop();
      signal?.removeEventListener("abort", finish);
    }
  }

  waitFor<T>(
    what: string,
    match: (event: QmpEvent) => T | undefined,
    options: CallOptions & { readonly afterGap?: () => Promise<T | undefined> } = {},
  ): { readonly result: Promise<T>; readonly cancel: () => void } {
    const { timeoutMs = 30_000, signal } = options;
    let cancel: () => void = () => undefined;
    const result = new Promise<T>((resolve, reject) => {
      const finish = (): void => {
        stop();
        stopTimer();
        signal?.removeEventListener("abort", onAbort);
      };
      const fail = (error: Error): void => {
        finish();
        reject(error);
      };
      const found = (value: T | undefined): void => {
        if (value === undefined) return;
        finish();
        resolve(value);
      };
      const onAbort = (): void =>
        fail(new AppError("operation.cancelled", `waiting for ${what} was cancelled`));
      const stopTimer = this.#clock.after(timeoutMs, () =>
        fail(
          new AppError("request.timeout", `${what} did not happen within ${timeoutMs} ms`, {
            pveStatus: 500,
          }),
        ),
      );
      let stop: () => void = () => undefined;
      cancel = () => fail(new AppError("operation.cancelled", `nobody waits for ${what} any more`));
      stop = this.listen({
        onEvent: (event) => {
          try {
            found(match(event));
          } catch (err) {
            fail(err instanceof Error ? err : new Error(String(err)));
          }
        },
        onReset: () => void options.afterGap?.().then(found, fail),
        onEnd: () =>
          // Not at once: `stop` must be known before it is called.
          queueMicrotask(() =>
            fail(new AppError("qmp.disconnected", `QEMU ended before ${what}`, { pveStatus: 500 })),
          ),
      });
      signal?.addEventListener("abort", onAbort, { once: true });
      if (signal?.aborted === true) queueMicrotask(onAbort);
    });
    return { result, cancel };
  }

  emit(event: QmpEvent): void {
    for (const listener of this.#listeners) listener.onEvent(event);
  }

  reset(): void {
    for (const listener of this.#listeners) listener.onReset?.();
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const listener of this.#listeners) listener.onEnd?.();
    this.#listeners.clear();
  }
}
