// What a guest of any kind takes, from its record.
import type { GuestClaim } from "../guest/guest-kind.ts";
import { guestKinds } from "../guest/guest-kinds.ts";
import { currentSection, type GuestRecord } from "../guest/guest-record.ts";
import { add } from "./amounts.ts";
import { parseVmConfig } from "../vm/config/parse-config.ts";
import type { VmConfig } from "../vm/config/vm-config.ts";

/** The same record, the same claim: records are never changed, only replaced. */
const known = new WeakMap<GuestRecord, GuestClaim>();

export function claimOf(guest: GuestRecord): GuestClaim {
  let claim = known.get(guest);
  if (claim === undefined) {
    const { demand, tags } = guestKinds[guest.type].claim({ ...guest, keys: currentSection(guest.conf) });
    const { backups = 0 } = guest;
    claim = { demand: backups === 0 ? demand : add(demand, { backups }), tags };
    known.set(guest, claim);
  }
  return claim;
}

export function vmConfigOf({ vmid, conf }: GuestRecord): VmConfig {
  return parseVmConfig(conf, { vmid, digestOf: () => "" });
}
