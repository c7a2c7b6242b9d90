// A Store offered to remote peers over gRPC. What each may see and change is decided by the Store it is given.
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { StoreService } from "@gpve/contracts/gen/proto/gpve/agent/v1/store_pb.ts";
import { toConnectError } from "@gpve/kit/grpc/app-error.ts";
import type { Store } from "../port.ts";
import { decodeRange, decodeTxn, encodeBatch, encodeRangeResponse, encodeTxnResponse } from "./codec.ts";

/** The store as the peer of a call may use it; throws when there is none. */
export type StoreOf = (context: HandlerContext) => Store;

export function serveStore(storeOf: StoreOf): ServiceImpl<typeof StoreService> {
  const answer = async <T>(context: HandlerContext, work: (store: Store) => Promise<T>): Promise<T> => {
    try {
      return await work(storeOf(context));
    } catch (err) {
      throw toConnectError(err);
    }
  };
  return {
    range: (request, context) =>
      answer(context, async (store) =>
        encodeRangeResponse(await store.range(decodeRange(request), { signal: context.signal })),
      ),
    txn: (request, context) =>
      answer(context, async (store) =>
        encodeTxnResponse(await store.txn(decodeTxn(request), { signal: context.signal })),
      ),
    async *watch(request, context) {
      try {
        const batches = storeOf(context).watch({
          key: request.key,
          ...(request.end === undefined ? {} : { end: request.end }),
          ...(request.startRevision === undefined ? {} : { startRevision: Number(request.startRevision) }),
          prevKv: request.prevKv,
          progress: request.progress,
          signal: context.signal,
        });
        for await (const batch of batches) yield encodeBatch(batch);
      } catch (err) {
        throw toConnectError(err);
      }
    },
    revision: (_request, context) =>
      answer(context, async (store) => ({
        revision: BigInt(await store.revision({ signal: context.signal })),
      })),
    leaseGrant: (request, context) =>
      answer(context, async (store) => {
        const lease = await store.leaseGrant(Number(request.ttlSeconds), request.id);
        return { id: lease.id, ttlSeconds: BigInt(lease.ttlSeconds) };
      }),
    leaseKeepAlive: (request, context) =>
      answer(context, async (store) => ({ ttlSeconds: BigInt(await store.leaseKeepAlive(request.id)) })),
    leaseRevoke: (request, context) =>
      answer(context, async (store) => {
        await store.leaseRevoke(request.id);
        return {};
      }),
    leaseStatus: (request, context) =>
      answer(context, async (store) => {
        const status = await store.leaseStatus(request.id);
        return {
          id: status.id,
          ttlSeconds: BigInt(status.ttlSeconds),
          grantedTtlSeconds: BigInt(status.grantedTtlSeconds),
          keys: [...status.keys],
        };
      }),
  };
}
