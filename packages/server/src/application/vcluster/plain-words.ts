// What a node says of a cluster it says by the cluster's key; to people it is the cluster's name.
import { isAppError } from "@gpve/contracts/errors.ts";
import {
  keyOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";

type Named = Pick<VirtualClusterRecord, "key" | "name">;

export function plainWords(cluster: Named, text: string): string {
  return cluster.key === undefined ? text : text.replaceAll(keyOf(cluster), cluster.name);
}

/** Calls whose refusals are in the tenant's words. */
export function plainlyRefused(
  calls: Pick<NodeCalls, "call">,
  records: Pick<Records, "collection">,
): Pick<NodeCalls, "call"> {
  return {
    async call(node, route, params, ctx) {
      const { vcluster, called } = params as { readonly vcluster?: string; readonly called?: string };
      try {
        return await calls.call(node, route, params, ctx);
      } catch (err) {
        const name = called ?? records.collection(vclusterCollection).get(vcluster ?? "")?.value.name;
        if (isAppError(err) && vcluster !== undefined && name !== undefined)
          err.message = plainWords({ key: vcluster, name }, err.message);
        throw err;
      }
    },
  };
}
