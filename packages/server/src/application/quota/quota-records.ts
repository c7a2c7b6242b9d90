// Where quotas and their reservations lie in the cluster store. Agents see none of it.
import { AppError } from "@gpve/contracts/errors.ts";
import { leftBackupCollection } from "@gpve/domain/backup/left-backups.ts";
import type { Quota } from "@gpve/domain/quota/quota.ts";
import type { Reservation } from "@gpve/domain/quota/reservation.ts";
import type { CollectionDef, Tx } from "@gpve/store/records/port.ts";

/** By name. One that cannot be read must not turn into no bound at all. */
export const quotasDef: CollectionDef<Quota> = { ...define<Quota>("/gpve/quotas/"), allOrNothing: true };

export const reservationsDef: CollectionDef<Reservation> = {
  ...define<Reservation>("/gpve/quota-reservations/"),
  allOrNothing: true,
};

/** By the outermost pool. Whoever reserves in it, or moves guests into it, writes it: they take turns. */
export interface QuotaTurn {
  readonly turn: number;
}

export const turnsDef: CollectionDef<QuotaTurn> = define<QuotaTurn>("/gpve/quota-turns/");

/** Part of removing a pool: the next one with its name starts without. */
export function removeQuotasOf(tx: Tx, pool: string): void {
  for (const { id, value } of tx.list(quotasDef)) if (value.tenant === pool) tx.delete(quotasDef, id);
  for (const { id, value } of tx.list(leftBackupCollection))
    if (value.pool === pool) tx.delete(leftBackupCollection, id);
}

function define<T extends object>(prefix: string): CollectionDef<T> {
  return {
    prefix,
    decode: (json) => {
      if (typeof json === "object" && json !== null && !Array.isArray(json)) return json as T;
      throw new AppError(
        "data.newer_version",
        `a record below ${prefix} has a shape this version does not know`,
      );
    },
  };
}
