import type { GuestType } from "@gpve/domain/guest/guest-kinds.ts";
import type { Pool } from "@gpve/domain/access/types.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Pools } from "../../../application/pool/pools.ts";

export function createPoolHandlers({ pools }: { readonly pools: Pools }): PveHandlers {
  const show = (pool: Pool, type: GuestType | "storage" | undefined): Record<string, unknown> => ({
    comment: pool.comment,
    members: pools.members(pool, type),
  });
  return {
    "GET /pools": ({ poolid, type }, ctx) => {
      if (poolid === undefined)
        return pools.list(ctx).map(({ poolid: id, comment }) => ({ poolid: id, comment }));
      return [{ poolid, ...show(pools.show(poolid, ctx), type) }];
    },
    "POST /pools": ({ poolid, comment }) => pools.create(poolid, comment),
    "PUT /pools": ({ poolid, delete: remove, ...change }, ctx) =>
      pools.update(poolid, { ...change, remove, allowMove: change["allow-move"] }, ctx),
    "DELETE /pools": ({ poolid }) => pools.remove(poolid),
    // The older form, which cannot name nested pools.
    "GET /pools/{poolid}": ({ poolid, type }) => show(pools.get(poolid), type),
    "PUT /pools/{poolid}": ({ poolid, delete: remove, ...change }, ctx) =>
      pools.update(poolid, { ...change, remove, allowMove: change["allow-move"] }, ctx),
    "DELETE /pools/{poolid}": ({ poolid }) => pools.remove(poolid),
  };
}
