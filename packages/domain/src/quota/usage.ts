// What a tenant uses: its guests as their records say, and what was promised to work that is not done.
import { given } from "@gpve/contracts/given.ts";
import { add, growth, most, type Amounts } from "./amounts.ts";
import { chargeOf, isWithin, type Quota, type QuotaGuest } from "./quota.ts";
import type { Reservation } from "./reservation.ts";
import { excesses, type Charge, type Excess } from "./verdict.ts";

/** A guest of the tenant. */
export interface Member {
  readonly vmid: number;
  readonly pool: string;
  readonly demand: Amounts;
  readonly tags: readonly string[];
  readonly running: boolean;
  readonly priority?: number;
  /** The request that had it made. */
  readonly madeBy?: string | undefined;
}

/** What one guest may turn out to be; the most of it counts. */
interface Use {
  readonly pool: string;
  readonly ways: readonly QuotaGuest[];
}

export function usesOf(members: readonly Member[], reservations: readonly Reservation[]): readonly Use[] {
  const byVmid = Map.groupBy(reservations, ({ vmid }) => vmid);
  const uses = members.map((member): Use => {
    const about = byVmid.get(member.vmid) ?? [];
    const own = about.filter(({ isNew, requestId }) => !isNew || requestId === member.madeBy);
    return { pool: member.pool, ways: waysOf(member, own) };
  });
  const isMade = new Set(members.map(({ vmid, madeBy }) => `${vmid} ${madeBy ?? ""}`));
  const coming = reservations.flatMap((reservation): Use[] => {
    const { isNew, vmid, requestId, pool, starts } = reservation;
    if (!isNew || pool === undefined || isMade.has(`${vmid} ${requestId}`)) return [];
    return [{ pool, ways: bothStates(reservation, false, starts) }];
  });
  return [...uses, ...coming];
}

function waysOf(member: Member, reservations: readonly Reservation[]): readonly QuotaGuest[] {
  if (reservations.length === 0) return [member];
  const made = reservations.filter(({ isNew }) => isNew).map(({ demand }) => demand);
  const more = reservations.filter(({ isNew }) => !isNew).map(({ demand }) => demand);
  const demand = add(most(member.demand, ...made), ...more);
  const starts = reservations.some((each) => each.starts);
  const tags = [member.tags, ...reservations.map((each) => each.tags)];
  return tags.flatMap((each) => bothStates({ ...member, demand, tags: each }, member.running, starts));
}

function bothStates(
  { demand, tags, priority }: Omit<QuotaGuest, "running">,
  running: boolean,
  starts: boolean,
): readonly QuotaGuest[] {
  const now = { demand, tags, running, ...given({ priority }) };
  return starts && !running ? [now, { ...now, running: true }] : [now];
}

export function usageOf(quota: Quota, uses: readonly Use[]): Charge {
  const charges = uses
    .filter(({ pool }) => isWithin(quota.tenant, pool))
    .map(({ ways }) => ways.map((way) => chargeOf(quota, way)));
  return {
    limits: add(...charges.map((ways) => most(...ways.map(({ limits }) => limits)))),
    requests: add(...charges.map((ways) => most(...ways.map(({ requests }) => requests)))),
  };
}

/** Where going from `before` to `after` takes more than there is. */
export function refusals(
  quotas: readonly Quota[],
  before: readonly Use[],
  after: readonly Use[],
): readonly Excess[] {
  return quotas.flatMap((quota) => {
    const [used, then] = [usageOf(quota, before), usageOf(quota, after)];
    const asked = {
      limits: growth(used.limits, then.limits),
      requests: growth(used.requests, then.requests),
    };
    return excesses(quota, used, asked);
  });
}
