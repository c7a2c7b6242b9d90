// etcd's KV service on a Store.
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { KV } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import type { Op, Store, TxnResponse } from "../port.ts";
import { noLease, refusalOf } from "../refusals.ts";
import { inEtcdWords } from "./etcd-texts.ts";
import { type ServedMember, headerOf } from "./member.ts";
import { planRange } from "./range-plan.ts";
import {
  fromDelete,
  fromPut,
  planTxn,
  previous,
  toKeyValue,
  toRangeAnswer,
  toTxnAnswer,
} from "./transaction.ts";

/** What a call is made in; whoever takes calls may know more of it. */
export type CallContext = Pick<HandlerContext, "signal">;

export interface ServiceDeps<Context extends CallContext = HandlerContext> {
  /** The store as the caller may use it; throws when it may not. */
  readonly storeOf: (context: Context) => Store;
  readonly member: ServedMember;
}

type Calls = ServiceImpl<typeof KV>;

export type KvCalls<Context extends CallContext> = {
  readonly [Name in keyof Calls]: (
    request: Parameters<Calls[Name]>[0],
    context: Context,
  ) => ReturnType<Calls[Name]>;
};

export function kvService<Context extends CallContext>({
  storeOf,
  member,
}: ServiceDeps<Context>): KvCalls<Context> {
  return {
    range: (etcd, context) =>
      inEtcdWords(async () => {
        const { request, finish } = planRange(etcd);
        const found = await storeOf(context).range(request, { signal: context.signal });
        return { ...toRangeAnswer(finish(found)), header: headerOf(member, found.revision) };
      }),
    put: (etcd, context) =>
      inEtcdWords(async () => {
        const done = await putOne(storeOf(context), fromPut(etcd), context.signal);
        const [answer] = done.responses;
        return {
          header: headerOf(member, done.revision),
          ...previous(answer?.type === "put" ? answer.prevKv : undefined),
        };
      }),
    deleteRange: (etcd, context) =>
      inEtcdWords(async () => {
        const request = { compare: [], success: [fromDelete(etcd)] };
        const { revision, responses } = await storeOf(context).txn(request, { signal: context.signal });
        const [answer] = responses;
        const { deleted, prevKvs } = answer?.type === "delete" ? answer : { deleted: 0, prevKvs: [] };
        return {
          header: headerOf(member, revision),
          deleted: BigInt(deleted),
          prevKvs: prevKvs.map(toKeyValue),
        };
      }),
    txn: (etcd, context) =>
      inEtcdWords(async () => {
        const { request, finish } = planTxn(etcd);
        const done = await storeOf(context).txn(request, { signal: context.signal });
        return { ...toTxnAnswer(done, finish), header: headerOf(member, done.revision) };
      }),
    compact: ({ revision }, context) =>
      inEtcdWords(async () => {
        const store = storeOf(context);
        await store.compact(Number(revision), { signal: context.signal });
        return { header: headerOf(member, await store.revision()) };
      }),
  };
}

/** A put alone looks for its lease first, a put of a transaction for its key: who gives neither is told of the lease. */
async function putOne(store: Store, op: Op, signal: AbortSignal): Promise<TxnResponse> {
  try {
    return await store.txn({ compare: [], success: [op] }, { signal });
  } catch (err) {
    const keyMissing = isAppError(err) && refusalOf(err) === "noKey";
    const lease = op.type === "put" ? (op.lease ?? 0n) : 0n;
    if (!keyMissing || lease === 0n) throw err;
    throw (await store.leaseStatus(lease)).ttlSeconds < 0 ? noLease(lease) : err;
  }
}
