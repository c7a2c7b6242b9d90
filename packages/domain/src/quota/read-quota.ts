// Between a ResourceQuota's spec, which has sizes with units, and the numbers of a quota; both ways.
import { given } from "@gpve/contracts/given.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import { formatQuantity, parseQuantity } from "../vm/spec/quantity.ts";
import { amountOf, keysOf, storageKey, type Amounts, type ResourceKey } from "./amounts.ts";
import {
  BOUNDS,
  type Bound,
  type Overcommit,
  type PriorityRange,
  type Quota,
  type QuotaScope,
} from "./quota.ts";

/** The shape was checked by the schema; sizes and numbers are read here, and what is wrong is named with its path. */
export function readQuota(name: string, tenant: string, spec: Fields): Quota {
  const bounds = Object.fromEntries(
    BOUNDS.map((bound) => [bound, readBound(spec[bound] as Fields | undefined, `spec.${bound}`)]),
  ) as Record<Bound, Amounts>;
  const overcommit = spec["overcommit"] as Overcommit | undefined;
  const scope = spec["scopeSelector"] as
    | { state?: QuotaScope["state"]; labels?: unknown; priority?: PriorityRange }
    | undefined;
  if (BOUNDS.every((bound) => keysOf(bounds[bound]).length === 0))
    throw invalidField("spec", "bounds nothing: say limits or requests, such as limits: {vmCount: 10}");
  const { state, labels, priority } = scope ?? {};
  if (priority !== undefined) checkRange(priority);
  const tags = readLabels(labels);
  return {
    name,
    tenant,
    ...bounds,
    ...given({ overcommit }),
    ...(scope === undefined ? {} : { scope: given({ state, tags, priority }) }),
  };
}

/** As it is shown: sizes in the largest unit that states them exactly. */
export function quotaSpec({ limits, requests, overcommit, scope }: Quota): Fields {
  return {
    ...(keysOf(limits).length === 0 ? {} : { limits: amountFields(limits) }),
    ...(keysOf(requests).length === 0 ? {} : { requests: amountFields(requests) }),
    ...given({ overcommit }),
    ...(scope === undefined
      ? {}
      : {
          scopeSelector: given({
            state: scope.state,
            priority: scope.priority,
            labels: scope.tags && Object.fromEntries(scope.tags.map((tag) => [tag, ""])),
          }),
        }),
  };
}

export function amountFields(amounts: Amounts): Fields {
  const storages: Record<string, string> = {};
  const fields: Record<string, unknown> = {};
  for (const key of keysOf(amounts)) {
    const amount = amountOf(amounts, key);
    if (key.startsWith("storage/")) storages[key.slice("storage/".length)] = formatQuantity(amount);
    else fields[key] = key === "memory" || key === "storage" ? formatQuantity(amount) : amount;
  }
  return { ...fields, ...(Object.keys(storages).length === 0 ? {} : { storages }) };
}

function readBound(fields: Fields | undefined, path: string): Amounts {
  const amounts: Partial<Record<ResourceKey, number>> = {};
  for (const [name, value] of Object.entries(fields ?? {})) {
    if (name === "storages") {
      for (const [storage, size] of Object.entries(value as Readonly<Record<string, string>>))
        amounts[storageKey(storage)] = parseQuantity(size, `${path}.storages.${storage}`);
    } else {
      amounts[name as ResourceKey] =
        typeof value === "string" ? parseQuantity(value, `${path}.${name}`) : Number(value);
    }
  }
  return amounts;
}

function checkRange({ min, max }: PriorityRange): void {
  const path = "spec.scopeSelector.priority";
  if (min === undefined && max === undefined)
    throw invalidField(path, "bounds nothing: say min or max, such as {min: 1}");
  if (min !== undefined && max !== undefined && min > max)
    throw invalidField(path, `has no guest: min ${min} is above max ${max}`);
}

/** A guest's labels are its tags, which have no values. */
function readLabels(labels: unknown): readonly string[] | undefined {
  if (labels === undefined) return undefined;
  return Object.entries(labels as Readonly<Record<string, string>>).map(([name, value]) => {
    if (value === "") return name;
    throw invalidField(
      `spec.scopeSelector.labels.${name}`,
      `must be '': guests are labelled by their tags, which have no value; write ${name}: ''`,
    );
  });
}
