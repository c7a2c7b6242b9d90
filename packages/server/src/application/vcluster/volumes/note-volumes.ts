// A backup of a cluster on several nodes is made by one of them; by these notes it may ask the others for the volumes of their
// workers, for that backup alone.
import { overlayOn } from "@gpve/domain/vcluster/overlay.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../../node/collections.ts";
import { noteMove } from "../../node/guest-moves.ts";

/** What the node that makes it is told; `id`: of the backup. */
export async function noteVolumes(
  { records, clock }: { readonly records: Records; readonly clock: Clock },
  record: VirtualClusterRecord,
  node: string,
  id: string,
): Promise<{ readonly volumesFrom?: { node: string; moveId: string }[] }> {
  if (overlayOn(record.spread, node) === undefined) return {};
  const vcluster = keyOf(record);
  return records.transact((tx) => {
    const others = nodesOf(record).filter((each) => each !== node && tx.get(nodeRecords, each) !== undefined);
    const volumesFrom = others.map((other) => ({ node: other, moveId: `volumes-${id}-${other}` }));
    for (const { node: to, moveId } of volumesFrom)
      noteMove(tx, { vmid: 0, id: moveId, from: node, to, at: clock.now(), purpose: "volumes", vcluster });
    return { volumesFrom };
  });
}
