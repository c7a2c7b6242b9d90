// Forgets reservations whose work is over: when its task ends, and from time to time all that nobody else did, such as
// those of a server that died. Every server does it; what another one did already is found done.
import { taskRecordId } from "@gpve/domain/task/task-record.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { leftOf } from "@gpve/domain/quota/reservation.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import type { QuotaLedger } from "./quota-ledger.ts";
import { reservationsDef } from "./quota-records.ts";
import type { QuotaView } from "./quota-view.ts";

export interface QuotaKeeperDeps {
  readonly records: Records;
  readonly ledger: QuotaLedger;
  readonly view: QuotaView;
  readonly clock: Pick<Clock, "after">;
  readonly log: Logger;
}

const EVERY_MS = 5_000;
/** A transaction takes only so many. */
const AT_ONCE = 50;

/** Returns the function that ends it. */
export function keepQuotas({ records, ledger, view, clock, log }: QuotaKeeperDeps): () => void {
  const reservations = records.collection(reservationsDef);
  const settle = (ids: readonly string[]): void => {
    for (let start = 0; start < ids.length; start += AT_ONCE)
      background(log, "forgetting quota reservations", ledger.settle(ids.slice(start, start + AT_ONCE)));
  };
  const sweep = (): void => {
    const facts = view.facts();
    settle(reservations.list().flatMap(({ id, value }) => (leftOf(value, facts) === value ? [] : [id])));
  };
  const forget = (): void => {
    const ids = view.leftBackups().flatMap(({ id, count }) => (count === 0 ? [id] : []));
    if (ids.length > 0)
      background(log, "forgetting backups of deleted guests", ledger.forgetLeftBackups(ids));
  };
  const stopTasks = records.collection(taskRecords).onChange((changed, entry, previous) => {
    if (entry?.value.endtime === undefined || previous?.value.endtime !== undefined) return;
    const isOfTask = (upid: string | undefined): boolean =>
      upid !== undefined && taskRecordId(upid) === changed;
    settle(reservations.list().flatMap(({ id, value }) => (isOfTask(value.upid) ? [id] : [])));
  });
  let cancel = clock.after(EVERY_MS, tick);
  function tick(): void {
    sweep();
    forget();
    cancel = clock.after(EVERY_MS, tick);
  }
  return () => {
    stopTasks();
    cancel();
  };
}
