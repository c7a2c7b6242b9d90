// Which etcd member to talk to: the last good one, until it fails.
import type { ConnectError } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { judge } from "./etcd-errors.ts";
import { type Endpoint, type Link, endpointOf } from "./link.ts";

export interface EndpointsOptions {
  readonly links: readonly Link[];
  readonly clock: Clock;
  /** For one attempt at one endpoint. */
  readonly attemptMs: number;
  /** For all attempts together. */
  readonly deadlineMs: number;
}

export interface AttemptOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly headers: Readonly<Record<string, string>>;
}

export interface CallPolicy {
  /**
   * What to do when an answer is lost. "repeat": the call changes nothing, or doing it twice is the same as once.
   * "tell": the caller must learn that the outcome is unknown.
   */
  readonly lost: "repeat" | "tell";
  readonly signal?: AbortSignal | undefined;
}

const PAUSE_MS = 100;
/** Members that lost their leader refuse at once instead of letting us wait. */
export const REQUIRE_LEADER = { hasleader: "true" } as const;

export class Endpoints {
  readonly #options: EndpointsOptions;
  #all: readonly Endpoint[];
  readonly #closed = new AbortController();
  #current = 0;

  constructor(options: EndpointsOptions) {
    if (options.links.length === 0) throw new AppError("config.invalid", "no etcd endpoint is given");
    this.#options = options;
    this.#all = options.links.map(endpointOf);
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  close(): void {
    this.#closed.abort(new AppError("store.unavailable", "the connection to etcd has been closed"));
    for (const { link } of this.#all) link.close();
  }

  /** From now on these. A line to a member that stays is kept, the others end. */
  use(links: readonly Link[]): void {
    if (links.length === 0) throw new AppError("config.invalid", "no etcd endpoint is given");
    const current = this.#all[this.#current];
    const known = new Map(this.#all.map((endpoint) => [endpoint.url, endpoint]));
    const next = links.map((link) => known.get(link.url) ?? endpointOf(link));
    for (const { url, link } of this.#all) if (!next.some((kept) => kept.url === url)) link.close();
    this.#all = next;
    this.#current = Math.max(0, current === undefined ? 0 : next.indexOf(current));
  }

  /** Runs a call at the current endpoint, moving on to others as far as that is safe. */
  async call<T>(
    what: string,
    policy: CallPolicy,
    run: (endpoint: Endpoint, options: AttemptOptions, repeated: boolean) => Promise<T>,
  ): Promise<T> {
    const { clock, attemptMs, deadlineMs } = this.#options;
    const signal = policy.signal === undefined ? this.closed : AbortSignal.any([policy.signal, this.closed]);
    const until = clock.monotonic() + deadlineMs;
    const failures = new Map<string, string>();
    let repeated = false;
    for (let attempt = 0; ; attempt++) {
      this.#throwIfOver(policy.signal);
      const endpoint = await this.connected(failures, signal);
      if (endpoint !== undefined) {
        // Whole: a fraction is no timeout in gRPC, and a peer that is asked with one refuses the call.
        const timeoutMs = Math.max(1, Math.ceil(Math.min(attemptMs, until - clock.monotonic())));
        try {
          return await run(endpoint, { signal, timeoutMs, headers: REQUIRE_LEADER }, repeated);
        } catch (err) {
          this.#throwIfOver(undefined);
          if (err instanceof AppError) throw err;
          const failure = judge(err, policy.signal);
          if (failure.type === "final") throw failure.error;
          failures.set(endpoint.url, failure.error.rawMessage);
          this.moveOnFrom(endpoint);
          if (failure.type === "lost") {
            if (policy.lost === "tell") throw this.#lost(what, endpoint, failure.error);
            repeated = true;
          }
        }
      }
      if (clock.monotonic() + PAUSE_MS >= until) throw this.unavailable(what, failures);
      if (attempt % this.#all.length === this.#all.length - 1) {
        await clock.sleep(PAUSE_MS, signal).catch(() => this.#throwIfOver(policy.signal));
      }
    }
  }

  /** The current endpoint if it can be connected; otherwise moves on and returns undefined. */
  async connected(failures: Map<string, string>, signal: AbortSignal): Promise<Endpoint | undefined> {
    const endpoint = this.#all[this.#current];
    if (endpoint === undefined) return undefined;
    const { clock, attemptMs } = this.#options;
    const { promise: late, resolve } = Promise.withResolvers<string>();
    const tooLate = (): void => resolve("no connection in time");
    const cancel = clock.after(attemptMs, tooLate);
    signal.addEventListener("abort", tooLate, { once: true });
    try {
      const reason = await Promise.race([endpoint.link.connect(), late]);
      if (reason === undefined) return endpoint;
      failures.set(endpoint.url, reason);
      this.moveOnFrom(endpoint);
      return undefined;
    } finally {
      cancel();
      signal.removeEventListener("abort", tooLate);
    }
  }

  /** Others may have moved on already: then the new choice stands. */
  moveOnFrom(endpoint: Endpoint): void {
    if (this.#all[this.#current] === endpoint) this.#current = (this.#current + 1) % this.#all.length;
  }

  unavailable(what: string, failures: ReadonlyMap<string, string>): AppError {
    const tried = this.#all.map(({ url }) => `${url} (${failures.get(url) ?? "not tried"})`);
    const text = [...failures.values()].some((reason) => reason.includes("no leader"))
      ? `etcd has no quorum for ${what}, nothing was changed: most of its members must run and reach each other; bring back those that are away (gpvectl store members): ${tried.join(", ")}`
      : `no etcd endpoint answered to ${what}: ${tried.join(", ")}`;
    return new AppError("store.unavailable", text, {
      data: { endpoints: this.#all.map(({ url }) => url) },
    });
  }

  #lost(what: string, endpoint: Endpoint, cause: ConnectError): AppError {
    return new AppError(
      "store.unavailable",
      `etcd at ${endpoint.url} did not answer to ${what} (${cause.rawMessage}); it may or may not have been done`,
      { cause, data: { endpoints: this.#all.map(({ url }) => url), ambiguous: true } },
    );
  }

  #throwIfOver(signal: AbortSignal | undefined): void {
    if (signal?.aborted === true) {
      throw new AppError("operation.cancelled", "the request to etcd was cancelled", {
        cause: signal.reason,
      });
    }
    this.closed.throwIfAborted();
  }
}
