// A Store offered to remote peers over gRPC, each held to its own keys.
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { StoreService } from "@gpve/contracts/gen/proto/gpve/agent/v1/store_pb.ts";
import { toConnectError } from "@gpve/kit/grpc/app-error.ts";
import type { RangeRequest, RangeResponse, Store, WatchBatch } from "../port.ts";
import { decodeRange, decodeTxn, encodeBatch, encodeRangeResponse, encodeTxnResponse } from "./codec.ts";
import type { KeyGuard } from "./key-guard.ts";

/** Names the peer of a call and what it may touch; throws when there is none. */
export type GuardOf = (context: HandlerContext) => KeyGuard;

export function serveStore(store: Store, guardOf: GuardOf): ServiceImpl<typeof StoreService> {
  const answer = async <T>(context: HandlerContext, work: (guard: KeyGuard) => Promise<T>): Promise<T> => {
    try {
      return await work(guardOf(context));
    } catch (err) {
      throw toConnectError(err);
    }
  };
  return {
    range: (request, context) =>
      answer(context, async (guard) =>
        encodeRangeResponse(await guardedRange(store, guard, decodeRange(request), context.signal)),
      ),
    txn: (request, context) =>
      answer(context, async (guard) => {
        const txn = decodeTxn(request);
        guard.checkTxn(txn);
        return encodeTxnResponse(await store.txn(txn, { signal: context.signal }));
      }),
    async *watch(request, context) {
      try {
        const guard = guardOf(context);
        guard.visible(request.key, request.end);
        const batches = store.watch({
          key: request.key,
          ...(request.end === undefined ? {} : { end: request.end }),
          ...(request.startRevision === undefined ? {} : { startRevision: Number(request.startRevision) }),
          prevKv: request.prevKv,
          progress: request.progress,
          signal: context.signal,
        });
        for await (const batch of batches) yield encodeBatch(withoutHidden(batch, guard));
      } catch (err) {
        throw toConnectError(err);
      }
    },
    revision: (_request, context) =>
      answer(context, async () => ({ revision: BigInt(await store.revision({ signal: context.signal })) })),
    leaseGrant: (request, context) =>
      answer(context, async () => {
        const lease = await store.leaseGrant(Number(request.ttlSeconds), request.id);
        return { id: lease.id, ttlSeconds: BigInt(lease.ttlSeconds) };
      }),
    leaseKeepAlive: (request, context) =>
      answer(context, async () => ({ ttlSeconds: BigInt(await store.leaseKeepAlive(request.id)) })),
    leaseRevoke: (request, context) =>
      answer(context, async () => {
        await store.leaseRevoke(request.id);
        return {};
      }),
    leaseStatus: (request, context) =>
      answer(context, async (guard) => {
        const status = await store.leaseStatus(request.id);
        return {
          id: status.id,
          ttlSeconds: BigInt(status.ttlSeconds),
          grantedTtlSeconds: BigInt(status.grantedTtlSeconds),
          keys: status.keys.filter((key) => !guard.isHidden(key)),
        };
      }),
  };
}

/** Reads the visible parts of a range one after another, all at one revision. */
async function guardedRange(
  store: Store,
  guard: KeyGuard,
  request: RangeRequest,
  signal: AbortSignal,
): Promise<RangeResponse> {
  const parts = guard.visible(request.key, request.end);
  if (request.descending === true) parts.reverse();
  const limit = request.limit ?? 0;
  let revision = request.revision;
  const found: RangeResponse[] = [];
  let taken = 0;
  for (const part of parts) {
    const full = limit > 0 && taken >= limit;
    const response = await store.range(
      {
        ...request,
        key: part.start,
        ...(part.end === undefined ? {} : { end: part.end }),
        ...(limit > 0 && !full ? { limit: limit - taken } : {}),
        ...(revision === undefined ? {} : { revision }),
        ...(full ? { countOnly: true } : {}),
      },
      { signal },
    );
    revision ??= response.revision;
    taken += response.kvs.length;
    found.push(full && response.count > 0 ? { ...response, more: true } : response);
  }
  return {
    kvs: found.flatMap((response) => response.kvs),
    more: found.some((response) => response.more),
    count: found.reduce((sum, response) => sum + response.count, 0),
    revision: revision ?? (await store.revision({ signal })),
  };
}

function withoutHidden(batch: WatchBatch, guard: KeyGuard): WatchBatch {
  if (batch.type !== "events") return batch;
  const events = batch.events.filter((event) => !guard.isHidden(event.kv.key));
  return events.length === 0
    ? { type: "progress", revision: batch.revision }
    : { type: "events", revision: batch.revision, events };
}
