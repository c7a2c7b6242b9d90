// Whether there is room for more, and the words for when there is not: what is used, asked and allowed, and who can
// change it. What was over before and does not grow is nobody's fault now.
import { AppError } from "@gpve/contracts/errors.ts";
import { formatQuantity } from "../vm/spec/quantity.ts";
import { amountOf, keysOf, type Amounts, type ResourceKey } from "./amounts.ts";
import { BOUNDS, hardOf, type Bound, type Quota } from "./quota.ts";

export type Charge = Readonly<Record<Bound, Amounts>>;

export interface Excess {
  readonly quota: string;
  readonly tenant: string;
  readonly bound: Bound;
  readonly resource: ResourceKey;
  readonly used: number;
  readonly asked: number;
  readonly hard: number;
}

/** Empty: there is room. */
export function excesses(quota: Quota, used: Charge, asked: Charge): readonly Excess[] {
  return BOUNDS.flatMap((bound) => {
    const hard = hardOf(quota, bound);
    return keysOf(hard).flatMap((resource): readonly Excess[] => {
      const facts = {
        used: amountOf(used[bound], resource),
        asked: amountOf(asked[bound], resource),
        hard: amountOf(hard, resource),
      };
      if (facts.asked <= 0 || facts.used + facts.asked <= facts.hard) return [];
      return [{ quota: quota.name, tenant: quota.tenant, bound, resource, ...facts }];
    });
  });
}

/** `what`: "create VM 100". */
export function quotaExceeded(what: string, found: readonly Excess[]): AppError {
  const lines = found.map(
    ({ quota, tenant, bound, resource, used, asked, hard }) =>
      `${resource} of tenant '${tenant}'${bound === "requests" ? " that may run at once" : ""}: ` +
      `used ${shown(resource, used)}, asked ${shown(resource, asked)}, hard ${shown(resource, hard)} (quota '${quota}')`,
  );
  const tenants = [...new Set(found.map(({ tenant }) => tenant))];
  const who = tenants.map((tenant) => `Pool.Allocate on ${aboveTenant(tenant)}`).join(" or ");
  return new AppError(
    "capacity.exceeded",
    `unable to ${what}: quota exceeded - ${lines.join("; ")}. Free some of it, or ask somebody with ${who} to raise the quota`,
    { data: { exceeded: found } },
  );
}

/** Where one must have rights to change a tenant's quota: above it, never in it. */
export function aboveTenant(tenant: string): string {
  const border = tenant.lastIndexOf("/");
  return border === -1 ? "/pool" : `/pool/${tenant.slice(0, border)}`;
}

export function shown(resource: ResourceKey, amount: number): string {
  const isBytes = resource === "memory" || resource === "storage" || resource.startsWith("storage/");
  return isBytes ? formatQuantity(amount) : String(amount);
}
