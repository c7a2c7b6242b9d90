// The Store port of a process that has no store of its own: every call goes to a server over gRPC.
import { createClient, type Client, type Transport } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import { StoreService } from "@gpve/contracts/gen/proto/gpve/agent/v1/store_pb.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { appErrorOf } from "@gpve/kit/grpc/app-error.ts";
import { rootMessage } from "@gpve/kit/grpc/channel.ts";
import type {
  CallOptions,
  LeaseStatus,
  RangeRequest,
  RangeResponse,
  Store,
  TxnRequest,
  TxnResponse,
  WatchBatch,
  WatchRequest,
  Watching,
} from "../port.ts";
import { decodeBatch, decodeRangeResponse, decodeTxnResponse, encodeRange, encodeTxn } from "./codec.ts";

export interface RemoteStoreDeps {
  /** Asked anew for each call, so that a replaced connection is picked up. */
  readonly transport: () => Transport;
  readonly clock: Clock;
  readonly timeoutMs?: number;
}

export class RemoteStore implements Store {
  /** A line can break between a write and its answer. */
  readonly answersMayBeLost = true;
  readonly #deps: RemoteStoreDeps;
  readonly #closed = new AbortController();

  constructor(deps: RemoteStoreDeps) {
    this.#deps = deps;
  }

  async range(request: RangeRequest, options?: CallOptions): Promise<RangeResponse> {
    return decodeRangeResponse(
      await this.#call((client, o) => client.range(encodeRange(request), o), options),
    );
  }

  async txn(request: TxnRequest, options?: CallOptions): Promise<TxnResponse> {
    return decodeTxnResponse(await this.#call((client, o) => client.txn(encodeTxn(request), o), options));
  }

  /** Reconnects after the last revision it delivered: nothing is lost or repeated. */
  watch(request: WatchRequest): Watching {
    // The far side tells of progress at once to whoever wants it.
    return {
      [Symbol.asyncIterator]: () => this.#follow(request),
      requestProgress: () => undefined,
    };
  }

  async *#follow(request: WatchRequest): AsyncGenerator<WatchBatch> {
    const signal = AbortSignal.any([request.signal, this.#closed.signal]);
    let next = request.startRevision;
    let greeted = false;
    while (!signal.aborted) {
      try {
        const batches = this.#client().watch(
          {
            key: request.key,
            prevKv: request.prevKv ?? false,
            progress: request.progress ?? false,
            ...(request.end === undefined ? {} : { end: request.end }),
            ...(next === undefined ? {} : { startRevision: BigInt(next) }),
          },
          { signal },
        );
        for await (const wire of batches) {
          const batch = decodeBatch(wire);
          if (batch.type === "gap") {
            yield batch;
            return;
          }
          next = Math.max(next ?? 0, batch.revision + 1);
          if (batch.type === "ready") {
            if (greeted) continue;
            greeted = true;
          }
          yield batch;
        }
      } catch (err) {
        if (signal.aborted) return;
        const told = appErrorOf(err);
        if (told !== undefined && told.kind !== "unavailable") throw told;
      }
      await this.#deps.clock.sleep(500, signal).catch(() => undefined);
    }
  }

  async revision(options?: CallOptions): Promise<number> {
    return Number((await this.#call((client, o) => client.revision({}, o), options)).revision);
  }

  compact(): Promise<void> {
    return Promise.reject(new AppError("feature.unsupported", "only servers compact the store"));
  }

  async leaseGrant(ttlSeconds: number, id?: bigint): Promise<{ id: bigint; ttlSeconds: number }> {
    const lease = await this.#call((client, o) =>
      client.leaseGrant({ ttlSeconds: BigInt(ttlSeconds), ...(id === undefined ? {} : { id }) }, o),
    );
    return { id: lease.id, ttlSeconds: Number(lease.ttlSeconds) };
  }

  async leaseKeepAlive(id: bigint): Promise<number> {
    return Number((await this.#call((client, o) => client.leaseKeepAlive({ id }, o))).ttlSeconds);
  }

  async leaseRevoke(id: bigint): Promise<void> {
    await this.#call((client, o) => client.leaseRevoke({ id }, o));
  }

  async leaseStatus(id: bigint): Promise<LeaseStatus> {
    const status = await this.#call((client, o) => client.leaseStatus({ id }, o));
    return {
      id: status.id,
      ttlSeconds: Number(status.ttlSeconds),
      grantedTtlSeconds: Number(status.grantedTtlSeconds),
      keys: status.keys,
    };
  }

  leases(): Promise<readonly bigint[]> {
    return Promise.reject(new AppError("feature.unsupported", "only servers list the leases"));
  }

  close(): Promise<void> {
    this.#closed.abort(new AppError("store.unavailable", "the store was closed"));
    return Promise.resolve();
  }

  #client(): Client<typeof StoreService> {
    return createClient(StoreService, this.#deps.transport());
  }

  async #call<T>(
    work: (
      client: Client<typeof StoreService>,
      options: { signal: AbortSignal; timeoutMs: number },
    ) => Promise<T>,
    options?: CallOptions,
  ): Promise<T> {
    const signal =
      options?.signal === undefined
        ? this.#closed.signal
        : AbortSignal.any([options.signal, this.#closed.signal]);
    try {
      return await work(this.#client(), { signal, timeoutMs: this.#deps.timeoutMs ?? 10_000 });
    } catch (cause) {
      throw (
        appErrorOf(cause) ??
        new AppError("store.unavailable", `the cluster's store cannot be reached: ${rootMessage(cause)}`, {
          cause,
          data: { ambiguous: true },
        })
      );
    }
  }
}
