// Rules of guests about their place, kept beside their configuration, which PVE has no words for.
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { placementId } from "@gpve/domain/scheduler/guest-request.ts";
import type { SchedulingRules } from "@gpve/domain/scheduler/model.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { QuotaLedger } from "../quota/quota-ledger.ts";
import { placementKey, placementsDef, schedulingDef } from "./placement-records.ts";

export interface GuestRulesDeps {
  readonly records: Records;
  readonly clock: Pick<Clock, "now">;
  /** Priorities say which quotas a guest comes under. */
  readonly quotas: Pick<QuotaLedger, "requireRoomAt">;
}

export class GuestRules {
  readonly #deps: GuestRulesDeps;

  constructor(deps: GuestRulesDeps) {
    this.#deps = deps;
  }

  /** undefined = none. */
  async set(vmid: string, rules: SchedulingRules | undefined): Promise<void> {
    const { clock, records, quotas } = this.#deps;
    const at = clock.now();
    await records.transact((tx) => {
      quotas.requireRoomAt(tx, Number(vmid), rules?.priority);
      if (rules !== undefined) tx.put(schedulingDef, vmid, { rules, at });
      else if (tx.has(schedulingDef, vmid)) tx.delete(schedulingDef, vmid);
    });
  }
}

/** What no guest will come for any more. */
const FORGOTTEN_MS = 86_400_000;

/** Of a guest that is gone nothing is left that the next one with its id would inherit. Returns the function that ends it. */
export function keepPlacements({
  records,
  clock,
  log,
}: {
  readonly records: Records;
  readonly clock: Pick<Clock, "now">;
  readonly log: Logger;
}): () => void {
  const clear = (vmid: string, placement: string): void => {
    // What is written from now on is the next one's.
    const rules = records.collection(schedulingDef).get(vmid)?.revision;
    const placed = records.collection(placementsDef).get(placement)?.revision;
    if (rules === undefined && placed === undefined) return;
    const work = records.transact((tx) => {
      if (tx.get(schedulingDef, vmid)?.revision === rules && rules !== undefined)
        tx.delete(schedulingDef, vmid);
      if (tx.get(placementsDef, placement)?.revision === placed && placed !== undefined)
        tx.delete(placementsDef, placement);
    });
    background(log, "forgetting the placement of a guest that is gone", work);
  };
  const guests = records.collection(guestCollection);
  const before = clock.now() - FORGOTTEN_MS;
  for (const { id, value } of records.collection(schedulingDef).list())
    if (guests.get(id) === undefined && value.at < before) clear(id, placementKey(`vm/${id}`));
  return guests.onChange((id, entry, previous) => {
    if (entry === undefined && previous !== undefined) clear(id, placementKey(placementId(previous.value)));
  });
}
