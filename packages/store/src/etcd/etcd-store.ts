// The Store on an etcd v3 cluster.
import { isAppError } from "@gpve/contracts/errors.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type {
  CallOptions,
  LeaseStatus,
  RangeRequest,
  RangeResponse,
  Store,
  TxnRequest,
  TxnResponse,
  WatchRequest,
  Watching,
} from "../port.ts";
import { utf8 } from "../keys.ts";
import { newLeaseId } from "../lease-id.ts";
import { noLease, requireTtl } from "../refusals.ts";
import { checkTxn, readsOnly, requireKey } from "../txn-rules.ts";
import { Endpoints } from "./endpoints.ts";
import { judge } from "./etcd-errors.ts";
import { fromRange, fromTxn, revisionOf, toRange, toTxn } from "./etcd-messages.ts";
import { watchEtcd } from "./etcd-watch.ts";
import { type Link, type TlsFiles, linkTo } from "./link.ts";
import { SharedWatches } from "./shared-watch.ts";
import type { EtcdUser } from "./token-auth.ts";

/** Which members there are, where that changes. */
export interface MemberUrls {
  current(): readonly string[];
  /** Called with each new list. */
  follow(listener: (urls: readonly string[]) => void): void;
}

export interface EtcdOptions extends EtcdLimits {
  /** `https://host:2379`, or `http://…` where no TLS is wanted. */
  readonly endpoints: readonly string[];
  readonly members?: MemberUrls | undefined;
  readonly tls?: TlsFiles;
  /** Where etcd asks for name and password. */
  readonly user?: EtcdUser;
}

export interface EtcdLimits {
  readonly clock?: Clock;
  /** For one attempt at one endpoint; default 3 s. */
  readonly attemptMs?: number;
  /** After this a call gives up with `store.unavailable`; default 10 s. */
  readonly deadlineMs?: number;
}

/** Connects lazily: a cluster that is down is told by the first call. */
export function openEtcdStore(options: EtcdOptions): Store {
  const { tls = {}, user, clock = systemClock, members } = options;
  const link = (url: string): Link => linkTo(url, { tls, user, clock });
  const store = new EtcdStore((members?.current() ?? options.endpoints).map(link), options);
  members?.follow((urls) => store.use(urls, link));
  return store;
}

export interface StoreOverLinks extends Store {
  /** From now on these; what is not there yet is opened. */
  use(urls: readonly string[], link: (url: string) => Link): void;
}

/** Over lines that somebody else keeps up, such as an agent's to its servers. */
export function etcdStoreOver(links: readonly Link[], options: EtcdLimits = {}): StoreOverLinks {
  return new EtcdStore(links, options);
}

class EtcdStore implements Store {
  readonly answersMayBeLost = true;
  readonly #endpoints: Endpoints;
  readonly #clock: Clock;
  readonly #attemptMs: number;
  readonly #deadlineMs: number;
  readonly #shared: SharedWatches;

  constructor(links: readonly Link[], options: EtcdLimits) {
    this.#clock = options.clock ?? systemClock;
    this.#attemptMs = options.attemptMs ?? 3_000;
    this.#deadlineMs = options.deadlineMs ?? 10_000;
    this.#endpoints = new Endpoints({
      links,
      clock: this.#clock,
      attemptMs: this.#attemptMs,
      deadlineMs: this.#deadlineMs,
    });
    this.#shared = new SharedWatches((request) => this.#watch(request));
  }

  use(urls: readonly string[], link: (url: string) => Link): void {
    if (!this.#endpoints.closed.aborted) this.#endpoints.use(urls.map(link));
  }

  async range(request: RangeRequest, options: CallOptions = {}): Promise<RangeResponse> {
    requireKey(request.key);
    return this.#endpoints.call("a read", { lost: "repeat", signal: options.signal }, async (etcd, call) =>
      fromRange(await etcd.kv.range(toRange(request), call)),
    );
  }

  async txn(request: TxnRequest, options: CallOptions = {}): Promise<TxnResponse> {
    checkTxn(request);
    const lost = readsOnly(request) ? "repeat" : "tell";
    return this.#endpoints.call("a transaction", { lost, signal: options.signal }, async (etcd, call) =>
      fromTxn(await etcd.kv.txn(toTxn(request), call)),
    );
  }

  watch(request: WatchRequest): Watching {
    requireKey(request.key);
    const { only, startRevision, prevKv } = request;
    // What was there before is not kept for others, and "from now on" is for etcd to say.
    if (only === undefined || startRevision === undefined || prevKv === true) return this.#watch(request);
    return this.#shared.watch({ ...request, startRevision });
  }

  #watch(request: WatchRequest): Watching {
    const deps = {
      endpoints: this.#endpoints,
      clock: this.#clock,
      attemptMs: this.#attemptMs,
      deadlineMs: this.#deadlineMs,
    };
    return watchEtcd(deps, request);
  }

  async revision(options: CallOptions = {}): Promise<number> {
    // Any read that is not "serializable" is confirmed by the quorum; this one touches no key.
    const nothing = { key: utf8("\0"), countOnly: true };
    return this.#endpoints.call("a read", { lost: "repeat", signal: options.signal }, async (etcd, call) =>
      revisionOf((await etcd.kv.range(nothing, call)).header),
    );
  }

  async compact(revision: number, options: CallOptions = {}): Promise<void> {
    const policy = { lost: "repeat", signal: options.signal } as const;
    await this.#endpoints.call("a compaction", policy, async (etcd, call, repeated) => {
      await unlessDone(
        repeated,
        "store.compacted",
        etcd.kv.compact({ revision: BigInt(revision), physical: false }, call),
      );
    });
  }

  async leaseGrant(ttlSeconds: number, id?: bigint): Promise<{ id: bigint; ttlSeconds: number }> {
    requireTtl(ttlSeconds);
    // With an id of our own a repeated grant is recognised.
    const chosen = id === undefined || id === 0n ? newLeaseId() : id;
    return this.#endpoints.call("a lease", { lost: "repeat" }, async (etcd, call, repeated) => {
      const granted = await unlessDone(
        repeated,
        "object.exists",
        etcd.lease.leaseGrant({ ttl: BigInt(ttlSeconds), id: chosen }, call),
      );
      return { id: chosen, ttlSeconds: granted === undefined ? ttlSeconds : Number(granted.ttl) };
    });
  }

  async leaseKeepAlive(id: bigint): Promise<number> {
    return this.#endpoints.call("a lease renewal", { lost: "repeat" }, async (etcd, call) => {
      for await (const answer of etcd.lease.leaseKeepAlive(one({ id }), call)) {
        if (answer.ttl <= 0n) break;
        return Number(answer.ttl);
      }
      throw noLease(id);
    });
  }

  async leaseRevoke(id: bigint): Promise<void> {
    await this.#endpoints.call("a lease", { lost: "repeat" }, async (etcd, call, repeated) => {
      await unlessDone(repeated, "object.not_found", etcd.lease.leaseRevoke({ id }, call));
    });
  }

  async leaseStatus(id: bigint): Promise<LeaseStatus> {
    return this.#endpoints.call("a read", { lost: "repeat" }, async (etcd, call) => {
      const status = await etcd.lease.leaseTimeToLive({ id, keys: true }, call);
      return {
        id,
        ttlSeconds: Number(status.ttl),
        grantedTtlSeconds: Number(status.grantedTtl),
        keys: status.keys,
      };
    });
  }

  async leases(): Promise<readonly bigint[]> {
    return this.#endpoints.call("a read", { lost: "repeat" }, async (etcd, call) =>
      (await etcd.lease.leaseLeases({}, call)).leases.map(({ id }) => id),
    );
  }

  async close(): Promise<void> {
    this.#endpoints.close();
  }
}

/** When an earlier attempt lost its answer, "already done" is that answer. */
async function unlessDone<T>(
  repeated: boolean,
  done: "object.exists" | "object.not_found" | "store.compacted",
  call: Promise<T>,
): Promise<T | undefined> {
  try {
    return await call;
  } catch (err) {
    const failure = judge(err, undefined);
    if (repeated && failure.type === "final" && isAppError(failure.error, done)) return undefined;
    throw err;
  }
}

async function* one<T>(message: T): AsyncGenerator<T> {
  yield message;
}
