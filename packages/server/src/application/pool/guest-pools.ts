// Keeps pools and permissions in step with guests: a new guest gets into the pool it was created for; of one that is
// gone nothing is left that the next guest with its id would inherit, HA included; backup jobs forget it when that was asked for.
import { leftBackupCollection, leftBackupsId } from "@gpve/domain/backup/left-backups.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { goneGuestCollection, guestCollection, type GoneGuest } from "@gpve/domain/guest/guest-record.ts";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { removeGuestFromJobs } from "../backup-job/backup-jobs.ts";
import { removeGuestFromHa } from "../ha/ha-config.ts";
import { removeGuestFromReplication } from "../replication/replication-jobs.ts";
import { addGuestToPool, removeGuestAccess } from "./pools.ts";

export interface GuestPoolsDeps {
  readonly records: Records;
  readonly clock: Pick<Clock, "now">;
  readonly log: Logger;
}

/** Every server does it; what another one did already is found done. Returns the function that ends it. */
export function keepGuestPools({ records, clock, log }: GuestPoolsDeps): () => void {
  const guests = records.collection(guestCollection);
  const admit = (id: string): void =>
    background(log, "putting a guest into its pool", admitGuest(records, id, log));
  const clear = (id: string): void =>
    background(log, "removing the permissions of a guest that is gone", clearGuest(records, id, clock.now()));
  const gone = records.collection(goneGuestCollection);
  for (const { id, value } of guests.list()) if (value.wantedPool !== undefined) admit(id);
  for (const { id } of gone.list()) clear(id);
  const stops = [
    guests.onChange((id, entry, previous) => {
      if (entry?.value.wantedPool !== undefined) admit(id);
      if (entry === undefined && previous !== undefined) clear(id);
    }),
    gone.onChange((id, entry) => {
      if (entry !== undefined) clear(id);
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

async function clearGuest(records: Records, id: string, now: number): Promise<void> {
  await records.transact((tx) => {
    const gone = tx.get(goneGuestCollection, id)?.value;
    // Created again meanwhile: its own permissions are not ours to take.
    if (tx.get(guestCollection, id) === undefined) {
      noteLeftBackups(tx, gone, now);
      removeGuestAccess(tx, Number(id));
      if (gone !== undefined) removeGuestFromHa(tx, Number(id));
    }
    if (gone?.purge === true) removeGuestFromJobs(tx, Number(id));
    // A copy of what is gone must not become the copy of the next guest with its id.
    if (gone !== undefined) removeGuestFromReplication(tx, Number(id));
    if (gone !== undefined) tx.delete(goneGuestCollection, id);
  });
}

/** They count for the pool that it was in; where it was in none, still not for the next guest with its id. */
function noteLeftBackups(tx: Tx, gone: GoneGuest | undefined, now: number): void {
  if (gone?.left === undefined) return;
  const pool = tx.list(poolsDef).find(({ value }) => value.vms.includes(gone.vmid))?.id;
  const left = { ...gone.left, vmid: gone.vmid, pool: pool ?? "", until: Math.floor(now / 1000) };
  tx.put(leftBackupCollection, leftBackupsId(left), left);
}

async function admitGuest(records: Records, id: string, log: Logger): Promise<void> {
  const admit = (isIn: boolean): Promise<void> =>
    records.transact((tx) => {
      const guest = tx.get(guestCollection, id)?.value;
      const pool = guest?.wantedPool;
      if (guest === undefined || pool === undefined) return;
      if (isIn) addGuestToPool(tx, guest.vmid, pool);
      const { wantedPool: _done, ...rest } = guest;
      tx.put(guestCollection, id, rest);
    });
  try {
    await admit(true);
  } catch (err) {
    if (!isAppError(err, "object.not_found")) throw err;
    log.warn({ resource: `vm/${id}`, err: messageOf(err) }, "the pool of a new guest is gone");
    await admit(false);
  }
}
