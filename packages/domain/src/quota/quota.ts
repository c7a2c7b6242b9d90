// A tenant's quota as it is stored: numbers, already read from the text of a request.
import { amountOf, keysOf, type Amounts, type ResourceKey } from "./amounts.ts";

/** `limits`: of all that is defined, running or not. `requests`: of what runs at once. */
export const BOUNDS = ["limits", "requests"] as const;
export type Bound = (typeof BOUNDS)[number];

export interface Quota {
  readonly name: string;
  /** The pool it bounds, with all pools below. */
  readonly tenant: string;
  /** Only what is named is bounded. */
  readonly limits: Amounts;
  readonly requests: Amounts;
  readonly overcommit?: Overcommit;
  readonly scope?: QuotaScope;
}

/** How often cpu and memory may be given out. */
export interface Overcommit {
  readonly cpu?: number;
  readonly memory?: number;
}

/** Which guests count; all that are said must hold. */
export interface QuotaScope {
  /** `running`: only while it runs. `stopped`: only while it does not. */
  readonly state?: "running" | "stopped";
  /** Tags that a guest must have, all of them. */
  readonly tags?: readonly string[];
  /** Of spec.scheduling; both ends count. */
  readonly priority?: PriorityRange;
}

export interface PriorityRange {
  readonly min?: number;
  readonly max?: number;
}

/** What a quota looks at in a guest. */
export interface QuotaGuest {
  readonly demand: Amounts;
  readonly tags: readonly string[];
  readonly running: boolean;
  /** Where nothing is said: 0. */
  readonly priority?: number;
}

/** What is bounded, with overcommit. */
export function hardOf(quota: Quota, bound: Bound): Amounts {
  const { cpu = 1, memory = 1 } = quota.overcommit ?? {};
  const factors: Partial<Record<ResourceKey, number>> = { cpu, memory };
  const spec = quota[bound];
  return Object.fromEntries(
    keysOf(spec).map((key) => [key, Math.round(amountOf(spec, key) * (factors[key] ?? 1) * 1000) / 1000]),
  );
}

/** What a guest takes of a quota, of each bound. */
export function chargeOf(quota: Quota, guest: QuotaGuest): Readonly<Record<Bound, Amounts>> {
  const isIn = isInScope(quota.scope ?? {}, guest);
  return {
    limits: isIn ? guest.demand : {},
    requests: isIn && guest.running ? guest.demand : {},
  };
}

function isInScope({ state, tags = [], priority = {} }: QuotaScope, guest: QuotaGuest): boolean {
  const { min = -Infinity, max = Infinity } = priority;
  const own = guest.priority ?? 0;
  if (own < min || own > max) return false;
  if (state !== undefined && guest.running !== (state === "running")) return false;
  return tags.every((tag) => guest.tags.includes(tag));
}

/** The tenant itself and all above, the innermost first: `a/b/c`, `a/b`, `a`. */
export function tenantsOf(pool: string): readonly string[] {
  const parts = pool.split("/");
  return parts.map((_, index) => parts.slice(0, parts.length - index).join("/"));
}

export function rootTenant(pool: string): string {
  return pool.split("/", 1)[0] ?? pool;
}

export function isWithin(tenant: string, pool: string): boolean {
  return pool === tenant || pool.startsWith(`${tenant}/`);
}
