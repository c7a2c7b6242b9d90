// Which nodes could follow a cluster's store, and go on with it: those that it could have been placed on.
import { isInMaintenance, managerCollection } from "@gpve/domain/ha/collections.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { FIRST_SHARED_NETWORK, placeIn } from "@gpve/domain/vcluster/overlay.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../../node/collections.ts";
import type { Placer } from "../../scheduler/placer.ts";
import { withOrder } from "../order-nodes.ts";
import { fittingNodes } from "../place-cluster.ts";

export interface SparesDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  /** Where the cluster has rules of its own. */
  readonly placer: Pick<Placer, "preview">;
}

/** The best first. */
export async function sparesOf(
  deps: SparesDeps,
  record: VirtualClusterRecord,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const { node, abandoned = [], spec, spread } = record;
  // A number that its first node chose may be another cluster's elsewhere.
  const isKnown = (each: string): boolean =>
    spread === undefined || spread.network >= FIRST_SHARED_NETWORK || placeIn(spread, each) >= 0;
  const nodes = deps.records.collection(nodeRecords);
  const isOpen = (each: string): boolean =>
    nodes.get(each)?.value.unschedulable !== true &&
    !isInMaintenance(each, deps.records.collection(managerCollection));
  try {
    return fittingNodes(await withOrder(deps, record, { signal }), spec)
      .map((each) => each.node)
      .filter((each) => each !== node && !abandoned.includes(each) && isOpen(each) && isKnown(each));
  } catch (err) {
    signal.throwIfAborted();
    ignore(err, "no node fits now");
    return [];
  }
}
