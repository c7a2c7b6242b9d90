import { parameterError } from "@gpve/domain/request/failures.ts";
import { guestLabel } from "@gpve/domain/guest/guest-words.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { Collection } from "@gpve/store/records/port.ts";

export interface IdRange {
  readonly lower: number;
  readonly upper: number;
}

/** The lowest free VMID of the range, or the given one when it is free. */
export function nextFreeId(
  guests: Collection<GuestRecord>,
  range: IdRange,
  wanted: number | undefined,
): number {
  if (wanted !== undefined) {
    const taken = guests.get(String(wanted));
    if (taken === undefined) return wanted;
    throw parameterError({ vmid: `${guestLabel(taken.value)} already exists` });
  }
  for (let id = range.lower; id < range.upper; id++) {
    if (guests.get(String(id)) === undefined) return id;
  }
  throw new AppError(
    "capacity.exceeded",
    `unable to get any free VMID in range [${range.lower}, ${range.upper - 1}]`,
  );
}
