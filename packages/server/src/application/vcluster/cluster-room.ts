// Whether a tenant has room for a virtual cluster, or for more of one. Asked inside the transaction that writes it down.
import { growth, NOTHING } from "@gpve/domain/quota/amounts.ts";
import { clusterDemand } from "@gpve/domain/quota/cluster-demand.ts";
import { chargeOf, rootTenant } from "@gpve/domain/quota/quota.ts";
import { excesses, quotaExceeded } from "@gpve/domain/quota/verdict.ts";
import type { VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { Tx } from "@gpve/store/records/port.ts";
import { turnsDef } from "../quota/quota-records.ts";
import type { QuotaView } from "../quota/quota-view.ts";

export interface WantedRoom {
  /** "create virtual cluster demo". */
  readonly what: string;
  readonly tenant: string;
  /** undefined = it is new. */
  readonly before: VirtualClusterSpec | undefined;
  readonly after: VirtualClusterSpec;
  /** What its volumes were asked for already, which counts as it is. */
  readonly hasBytes?: number;
}

export function requireRoom(
  tx: Tx,
  quotas: Pick<QuotaView, "quotasOn" | "usage">,
  { what, tenant, before, after, hasBytes }: WantedRoom,
): void {
  const more = growth(
    before === undefined ? NOTHING : clusterDemand(before, hasBytes),
    clusterDemand(after, hasBytes),
  );
  const bounding = quotas.quotasOn(tenant);
  const found = bounding.flatMap((quota) =>
    excesses(quota, quotas.usage(quota), chargeOf(quota, { demand: more, tags: [], running: true })),
  );
  if (found.length > 0) throw quotaExceeded(what, found);
  // Two at once in one tree of tenants: the second sees the first.
  if (bounding.length === 0) return;
  const root = rootTenant(tenant);
  tx.put(turnsDef, root, { turn: (tx.get(turnsDef, root)?.value.turn ?? 0) + 1 });
}
