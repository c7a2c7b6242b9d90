// What a guest of any kind takes, from its record. One row for each kind.
import type { GuestType } from "../guest/guest-kinds.ts";
import { currentSection, type GuestRecord } from "../guest/guest-record.ts";
import { ctDemand } from "../container/ct-demand.ts";
import { effectiveValues } from "../vm/change/pending.ts";
import { parseVmConfig } from "../vm/config/parse-config.ts";
import type { VmConfig } from "../vm/config/vm-config.ts";
import { tagsOf } from "../vm/effects/vm-effects.ts";
import { vmDemand } from "../vm/vm-demand.ts";
import { splitList } from "../schema/list.ts";
import type { Amounts } from "./amounts.ts";

export interface GuestClaim {
  readonly demand: Amounts;
  readonly tags: readonly string[];
}

type Claim = (guest: GuestRecord) => GuestClaim;

const claims: Readonly<Record<GuestType, Claim>> = {
  qemu: (guest) => {
    const config = vmConfigOf(guest);
    return { demand: vmDemand(config, guest.sizes), tags: tagsOf(effectiveValues(config)) };
  },
  lxc: ({ conf }) => {
    const keys = currentSection(conf);
    return { demand: ctDemand(keys), tags: splitList(keys.get("tags") ?? "") };
  },
};

/** The same record, the same claim: records are never changed, only replaced. */
const known = new WeakMap<GuestRecord, GuestClaim>();

export function claimOf(guest: GuestRecord): GuestClaim {
  let claim = known.get(guest);
  if (claim === undefined) {
    claim = claims[guest.type](guest);
    known.set(guest, claim);
  }
  return claim;
}

export function vmConfigOf({ vmid, conf }: GuestRecord): VmConfig {
  return parseVmConfig(conf, { vmid, digestOf: () => "" });
}
