// By which two nodes agree on a standby's line. Every standby has a note of its own among those of moves.
import { moveCollection, moveId } from "@gpve/domain/guest/guest-move.ts";
import { type ClusterStandby, standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { noteMove } from "../../node/guest-moves.ts";

/** Notes that are older than a day are swept. */
const NOTE_AGAIN_MS = 3_600_000;

/** Keys of clusters whose control plane is being moved. */
export function clustersOnTheMove(records: Pick<Records, "collection">): ReadonlySet<string | undefined> {
  const notes = records.collection(moveCollection).list();
  return new Set(notes.flatMap(({ value }) => (value.purpose === "vcluster" ? value.vcluster : [])));
}

export async function renewLineNote(
  { records, clock }: { readonly records: Records; readonly clock: Pick<Clock, "now"> },
  record: VirtualClusterRecord,
): Promise<void> {
  const { standby } = record;
  if (standby === undefined || standby.mode !== "stream") return;
  const key = keyOf(record);
  const at = clock.now();
  const note = records.collection(moveCollection).get(noteOf(key, standby))?.value;
  if (note !== undefined && at - note.at < NOTE_AGAIN_MS) return;
  await records.transact((tx) => noteLine(tx, key, standby, at));
}

export function noteLine(
  tx: Tx,
  key: string,
  { generation, of: from, node: to }: ClusterStandby,
  at: number,
): void {
  const id = standbyLineId(key, generation);
  noteMove(tx, { vmid: 0, id, from, to, at, purpose: "standby", vcluster: key });
}

export function forgetLine(tx: Tx, key: string, standby: ClusterStandby): void {
  const note = noteOf(key, standby);
  if (tx.get(moveCollection, note) !== undefined) tx.delete(moveCollection, note);
}

function noteOf(key: string, { generation }: ClusterStandby): string {
  return moveId(0, standbyLineId(key, generation));
}
