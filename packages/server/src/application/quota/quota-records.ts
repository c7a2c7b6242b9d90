// Where quotas and their reservations lie in the cluster store. Agents see none of it.
import { leftBackupCollection } from "@gpve/domain/backup/left-backups.ts";
import { objectRecords } from "@gpve/domain/record/collection.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import type { Reservation } from "@gpve/domain/quota/reservation.ts";
import type { CollectionDef, Tx } from "@gpve/store/records/port.ts";

/** By name. One that cannot be read must not turn into no bound at all. */
export const quotasDef: CollectionDef<Quota> = {
  ...objectRecords<Quota>("/gpve/quotas/"),
  allOrNothing: true,
};

export const reservationsDef: CollectionDef<Reservation> = {
  ...objectRecords<Reservation>("/gpve/quota-reservations/"),
  allOrNothing: true,
};

/** By the outermost pool. Whoever reserves in it, or moves guests into it, writes it: they take turns. */
export interface QuotaTurn {
  readonly turn: number;
}

export const turnsDef: CollectionDef<QuotaTurn> = objectRecords<QuotaTurn>("/gpve/quota-turns/");

/** Part of removing a pool: the next one with its name starts without. */
export function removeQuotasOf(tx: Tx, pool: string): void {
  for (const { id, value } of tx.list(quotasDef)) if (value.tenant === pool) tx.delete(quotasDef, id);
  for (const { id, value } of tx.list(leftBackupCollection))
    if (value.pool === pool) tx.delete(leftBackupCollection, id);
}
