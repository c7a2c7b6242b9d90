// What a node says of a cluster it says by the cluster's key; to people it is the cluster's name.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { withName } from "@gpve/domain/vcluster/cluster-key.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";

type Named = Pick<VirtualClusterRecord, "key" | "name">;

export function plainWords(cluster: Named, text: string): string {
  return cluster.key === undefined ? text : withName(text, { key: cluster.key, name: cluster.name });
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
          throw plainError(err, (text) => plainWords({ key: vcluster, name }, text));
        throw err;
      }
    },
  };
}

/** What it says of fields too. */
function plainError(err: AppError, plain: (text: string) => string): AppError {
  err.message = plain(err.message);
  const { errors } = err;
  if (errors === undefined) return err;
  const said = Object.fromEntries(Object.entries(errors).map(([field, why]) => [field, plain(why)]));
  const { code, message, data, pveStatus } = err;
  return new AppError(code, message, { data, errors: said, ...given({ pveStatus }), cause: err });
}
