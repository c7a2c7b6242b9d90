// etcd's Lease service on a Store.
import type { ServiceImpl } from "@connectrpc/connect";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { Lease } from "../gen/proto/etcdserverpb/rpc_pb.ts";
import { refusalOf } from "../refusals.ts";
import { inEtcdWords } from "./etcd-texts.ts";
import type { ServiceDeps } from "./kv.ts";
import { headerOf } from "./member.ts";

/** etcd's shortest lease with its default election time; who asks for less gets it. */
const MIN_TTL_SECONDS = 2;

export function leaseService({ storeOf, member }: ServiceDeps): ServiceImpl<typeof Lease> {
  return {
    leaseGrant: ({ ttl, id }, context) =>
      inEtcdWords(async () => {
        const store = storeOf(context);
        const lease = await store.leaseGrant(Math.max(MIN_TTL_SECONDS, Number(ttl)), id);
        const header = headerOf(member, await store.revision());
        return { header, id: lease.id, ttl: BigInt(lease.ttlSeconds) };
      }),
    leaseRevoke: ({ id }, context) =>
      inEtcdWords(async () => {
        const store = storeOf(context);
        await store.leaseRevoke(id);
        return { header: headerOf(member, await store.revision()) };
      }),
    async *leaseKeepAlive(requests, context) {
      for await (const { id } of requests) {
        yield await inEtcdWords(async () => {
          const store = storeOf(context);
          // A lease that is gone is an answer, not the end of the stream: others are kept alive on it.
          const ttl = await store.leaseKeepAlive(id).catch((err: unknown) => {
            if (isAppError(err) && refusalOf(err) === "noLease") return 0;
            throw err;
          });
          return { header: headerOf(member, await store.revision()), id, ttl: BigInt(ttl) };
        });
      }
    },
    leaseTimeToLive: ({ id, keys }, context) =>
      inEtcdWords(async () => {
        const store = storeOf(context);
        const status = await store.leaseStatus(id);
        return {
          header: headerOf(member, await store.revision()),
          id,
          ttl: BigInt(status.ttlSeconds),
          grantedTtl: BigInt(status.grantedTtlSeconds),
          keys: keys ? [...status.keys] : [],
        };
      }),
    leaseLeases: (_request, context) =>
      inEtcdWords(async () => {
        const store = storeOf(context);
        const leases = (await store.leases()).map((id) => ({ id }));
        return { header: headerOf(member, await store.revision()), leases };
      }),
  };
}
