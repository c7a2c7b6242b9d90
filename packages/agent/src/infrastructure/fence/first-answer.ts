// One server after the other is asked for the same, without waiting for those before to give up: a server that is cut off
// from the store looks alive, and all of the time that a lease has is no longer than a few of its time-outs.
//
// What is asked compares revisions: of several that are carried out one changes something, and the others are told so.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Store, TxnRequest, TxnResponse } from "@gpve/store/port.ts";

export type Asked = Pick<Store, "txn">;

export interface FirstAnswerDeps {
  /** One for each server that there is now; the same server, the same object. */
  readonly stores: () => readonly Asked[];
  readonly clock: Pick<Clock, "after">;
}

/** A server that is well answers sooner, also a busy one. */
const NEXT_MS = 600;

export class FirstAnswer implements Asked {
  readonly #deps: FirstAnswerDeps;
  #preferred: Asked | undefined;

  constructor(deps: FirstAnswerDeps) {
    if (deps.stores().length === 0) throw new AppError("config.invalid", "no server to ask is given");
    this.#deps = deps;
  }

  async txn(request: TxnRequest): Promise<TxnResponse> {
    const { clock } = this.#deps;
    const stores = this.#deps.stores();
    const first = Math.max(0, this.#preferred === undefined ? 0 : stores.indexOf(this.#preferred));
    const order = [...stores.slice(first), ...stores.slice(0, first)];
    const failures: unknown[] = [];
    const over = new AbortController();
    const { promise, resolve, reject } = Promise.withResolvers<TxnResponse>();
    let waiting = (): void => undefined;
    const askNext = (): void => {
      waiting();
      const store = order.shift();
      if (store === undefined) return;
      if (order.length > 0) waiting = clock.after(NEXT_MS, askNext);
      this.#ask(store, request, over.signal).then(resolve, (err: unknown) => {
        failures.push(err);
        if (failures.length === stores.length) reject(allFailed(failures));
        else askNext();
      });
    };
    askNext();
    try {
      return await promise;
    } finally {
      waiting();
      over.abort(new Error("another server has answered"));
    }
  }

  async #ask(store: Asked, request: TxnRequest, signal: AbortSignal): Promise<TxnResponse> {
    const answer = await store.txn(request, { signal });
    if (!signal.aborted) this.#preferred = store;
    return answer;
  }
}

/** A refusal says more than a server that is away. */
function allFailed(failures: readonly unknown[]): unknown {
  return failures.find((err) => !isAppError(err, "store.unavailable")) ?? failures.at(-1);
}
