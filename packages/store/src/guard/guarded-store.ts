// A Store as one peer sees it: only what it may read, only writes to what is its own, only its own leases. Any way to
// offer a store to peers (today etcd's gRPC) serves this and has no rules of its own.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { equalBytes, fromUtf8, utf8 } from "../keys.ts";
import type {
  Bytes,
  CallOptions,
  KeyValue,
  LeaseStatus,
  Op,
  OpResponse,
  RangeRequest,
  RangeResponse,
  Store,
  TxnRequest,
  TxnResponse,
  Watching,
  WatchBatch,
  WatchRequest,
} from "../port.ts";
import { noLease } from "../refusals.ts";
import { KeyGuard, type KeyRules } from "./key-guard.ts";
import { ownedTxn, type OwnedRecords } from "./owned-records.ts";
import type { PeerBudget } from "./peer-budget.ts";

/** The smallest key of all, which nobody writes: who reads it asks for the revision alone. */
const NOWHERE = Uint8Array.of(0);

export interface PeerRules extends KeyRules {
  /** Whose rules these are; what `owned` compares owners with. */
  readonly peer: string;
  readonly owned?: OwnedRecords;
  /** Records that it needs to know of, but not all of what is in them. */
  readonly brief?: {
    readonly prefix: string;
    /** What it sees of a value; the value itself where that is its to read. */
    readonly of: (value: Bytes) => Bytes;
  };
  /** Where it is noted whose a lease is, each note tied to its lease. The peer itself must not write there. */
  readonly leases: string;
  /** What it may use up; absent = as much as it likes. */
  readonly budget?: PeerBudget;
}

export class GuardedStore implements Store {
  readonly #store: Store;
  readonly #rules: PeerRules;
  readonly #guard: KeyGuard;

  constructor(store: Store, rules: PeerRules) {
    this.#store = store;
    this.#rules = rules;
    this.#guard = new KeyGuard(rules);
  }

  /** Reads the visible parts of a range one after another, all at one revision. */
  async range(request: RangeRequest, options?: CallOptions): Promise<RangeResponse> {
    if (request.end === undefined && equalBytes(request.key, NOWHERE)) {
      return { kvs: [], more: false, count: 0, revision: await this.#store.revision(options) };
    }
    const parts = this.#guard.visible(request.key, request.end);
    if (request.descending === true) parts.reverse();
    const limit = request.limit ?? 0;
    let revision = request.revision === 0 ? undefined : request.revision;
    const found: RangeResponse[] = [];
    let taken = 0;
    for (const part of parts) {
      const full = limit > 0 && taken >= limit;
      const response = await this.#store.range(
        {
          ...request,
          key: part.start,
          ...given({ end: part.end }),
          ...(limit > 0 && !full ? { limit: limit - taken } : {}),
          ...given({ revision }),
          ...(full ? { countOnly: true } : {}),
        },
        options,
      );
      revision ??= response.revision;
      taken += response.kvs.length;
      found.push(full && response.count > 0 ? { ...response, more: true } : response);
    }
    return {
      kvs: found.flatMap((response) => response.kvs.map((kv) => this.#shown(kv))),
      more: found.some((response) => response.more),
      count: found.reduce((sum, response) => sum + response.count, 0),
      revision: found[0]?.revision ?? (await this.#store.revision(options)),
    };
  }

  async txn(request: TxnRequest, options?: CallOptions): Promise<TxnResponse> {
    this.#guard.checkTxn(request);
    this.#checkCompared(request);
    for (const lease of leasesIn([...request.success, ...(request.failure ?? [])])) {
      await this.#requireLease(lease);
    }
    const { owned, peer, budget } = this.#rules;
    await budget?.spend(request);
    const answer = await (owned === undefined
      ? this.#store.txn(request, options)
      : ownedTxn(this.#store, owned, peer, request, options));
    return { ...answer, responses: answer.responses.map((response) => this.#answered(response)) };
  }

  /** Refuses at once. Hidden events pass as silence, or as progress for whoever wants to hear of it. */
  watch(request: WatchRequest): Watching {
    const only = this.#guard.visible(request.key, request.end);
    const giveBack = this.#rules.budget?.openWatch();
    // One that ends before anybody asks it for anything never comes to its own end.
    if (giveBack !== undefined) request.signal.addEventListener("abort", giveBack, { once: true });
    const watching = this.#store.watch({ ...request, only });
    return {
      [Symbol.asyncIterator]: () => this.#visibleOf(watching, request.progress === true, giveBack),
      requestProgress: () => watching.requestProgress(),
    };
  }

  async *#visibleOf(
    batches: AsyncIterable<WatchBatch>,
    progress: boolean,
    giveBack: (() => void) | undefined,
  ): AsyncGenerator<WatchBatch> {
    try {
      for await (const batch of batches) {
        if (batch.type !== "events") {
          yield batch;
          continue;
        }
        const events = batch.events
          .filter((event) => !this.#guard.isHidden(event.kv.key))
          .map((event) => ({
            ...event,
            kv: this.#shown(event.kv),
            ...(event.prevKv === undefined ? {} : { prevKv: this.#shown(event.prevKv) }),
          }));
        const { revision } = batch;
        if (events.length > 0) yield { type: "events", revision, events };
        else if (progress) yield { type: "progress", revision };
      }
    } finally {
      giveBack?.();
    }
  }

  revision(options?: CallOptions): Promise<number> {
    return this.#store.revision(options);
  }

  compact(): Promise<void> {
    return Promise.reject(new AppError("access.denied", "only servers compact the store"));
  }

  async leaseGrant(ttlSeconds: number, id?: bigint): Promise<{ id: bigint; ttlSeconds: number }> {
    const { budget } = this.#rules;
    const grant = () => this.#grant(ttlSeconds, id);
    return budget === undefined ? grant() : budget.grant(ttlSeconds, grant);
  }

  async #grant(ttlSeconds: number, id: bigint | undefined): Promise<{ id: bigint; ttlSeconds: number }> {
    const lease = await this.#store.leaseGrant(ttlSeconds, id);
    const note: Op = { type: "put", key: this.#noteOf(lease.id), value: utf8(""), lease: lease.id };
    await this.#store.txn({ compare: [], success: [note] });
    return lease;
  }

  async leaseKeepAlive(id: bigint): Promise<number> {
    await this.#requireLease(id);
    return this.#store.leaseKeepAlive(id);
  }

  async leaseRevoke(id: bigint): Promise<void> {
    await this.#requireLease(id);
    await this.#store.leaseRevoke(id);
  }

  async leaseStatus(id: bigint): Promise<LeaseStatus> {
    if (!(await this.#hasLease(id))) return { id, ttlSeconds: -1, grantedTtlSeconds: 0, keys: [] };
    const status = await this.#store.leaseStatus(id);
    return { ...status, keys: status.keys.filter((key) => this.#guard.maySee(key)) };
  }

  leases(): Promise<readonly bigint[]> {
    return Promise.reject(new AppError("access.denied", "only servers list the leases"));
  }

  /** The store behind it is not this peer's to close. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  #isBrief(key: Bytes): boolean {
    const { brief } = this.#rules;
    return brief !== undefined && fromUtf8(key).startsWith(brief.prefix);
  }

  /** A deletion carries no value. */
  #shown(kv: KeyValue): KeyValue {
    const { brief } = this.#rules;
    if (brief === undefined || kv.value.length === 0 || !this.#isBrief(kv.key)) return kv;
    return { ...kv, value: brief.of(kv.value) };
  }

  #answered(response: OpResponse): OpResponse {
    switch (response.type) {
      case "range":
        return { ...response, kvs: response.kvs.map((kv) => this.#shown(kv)) };
      case "txn":
        return { ...response, responses: response.responses.map((each) => this.#answered(each)) };
      case "put":
        return response.prevKv === undefined
          ? response
          : { ...response, prevKv: this.#shown(response.prevKv) };
      case "delete":
        return { ...response, prevKvs: response.prevKvs.map((kv) => this.#shown(kv)) };
    }
  }

  /** Who may ask whether a value is this or that reads it, question by question. */
  #checkCompared({
    compare,
    success,
    failure = [],
  }: Pick<TxnRequest, "compare" | "success" | "failure">): void {
    for (const { target, key, end } of compare) {
      if (target === "value" && (end !== undefined || this.#isBrief(key)))
        throw new AppError("access.denied", `this peer may not compare values of ${fromUtf8(key)}`);
    }
    for (const op of [...success, ...failure]) if (op.type === "txn") this.#checkCompared(op);
  }

  async #requireLease(id: bigint): Promise<void> {
    if (await this.#hasLease(id)) return;
    throw noLease(id);
  }

  async #hasLease(id: bigint): Promise<boolean> {
    return (await this.#store.range({ key: this.#noteOf(id), countOnly: true })).count === 1;
  }

  #noteOf(id: bigint): Uint8Array {
    return utf8(`${this.#rules.leases}${id}`);
  }
}

function leasesIn(ops: readonly Op[]): Set<bigint> {
  const found = new Set<bigint>();
  for (const op of ops) {
    if (op.type === "txn") for (const id of leasesIn([...op.success, ...(op.failure ?? [])])) found.add(id);
    if (op.type === "put" && op.lease !== undefined && op.lease !== 0n) found.add(op.lease);
  }
  return found;
}
