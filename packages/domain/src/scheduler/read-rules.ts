// The placement part of spec.scheduling, whose shape the schema has checked: what cannot be read in it, and what makes no
// sense together, is told with its field.
import { schedulingFields } from "@gpve/contracts/v1/scheduling.ts";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { parseLabelSelector } from "@gpve/contracts/v1/selector.ts";
import type { GuestAffinity, SchedulingRules } from "./model.ts";

const FIELDS: readonly string[] = Object.keys(schedulingFields);

/** undefined = nothing is said about its place. */
export function readRules(fields: unknown, path = "spec.scheduling"): SchedulingRules | undefined {
  const given = Object.entries((fields ?? {}) as Readonly<Record<string, unknown>>).filter(
    ([name, value]) => FIELDS.includes(name) && value !== undefined,
  );
  if (given.length === 0) return undefined;
  const rules = Object.fromEntries(given) as SchedulingRules;
  const errors = Object.fromEntries([...faults(rules)].map(([field, why]) => [`${path}.${field}`, why]));
  const lines = Object.entries(errors).map(([field, why]) => `${field} ${why}`);
  if (lines.length > 0) throw new AppError("request.invalid", lines.join("; "), { errors });
  return rules;
}

/** The part of spec.scheduling that is about its place; undefined = there is none. */
export function placementFields(scheduling: unknown): Readonly<Record<string, unknown>> | undefined {
  const fields = Object.entries((scheduling ?? {}) as object).filter(([name]) => FIELDS.includes(name));
  return fields.length === 0 ? undefined : Object.fromEntries(fields);
}

function* faults(rules: SchedulingRules): Iterable<readonly [string, string]> {
  const { nodeAffinity, affinity, antiAffinity, strategy } = rules;
  const selectors: (readonly [string, string])[] = [
    ...(nodeAffinity?.required ?? []).map((text, at) => [`nodeAffinity.required[${at}]`, text] as const),
    ...(nodeAffinity?.preferred ?? []).map(
      ({ nodes }, at) => [`nodeAffinity.preferred[${at}]`, nodes] as const,
    ),
    ...termsOf("affinity", affinity),
    ...termsOf("antiAffinity", antiAffinity),
    ...(rules.spread ?? []).flatMap(({ guests }, at) =>
      guests === undefined ? [] : [[`spread[${at}].guests`, guests] as const],
    ),
    ...(rules.near === undefined ? [] : [["near", rules.near] as const]),
  ];
  for (const [field, text] of selectors) {
    const fault = selectorFault(text);
    if (fault !== undefined) yield [field, fault];
  }
  const of = (field: keyof SchedulingRules, needed: string): boolean =>
    rules[field] !== undefined && strategy !== undefined && strategy !== needed;
  if (of("utilizationThreshold", "utilization"))
    yield ["utilizationThreshold", `means nothing to strategy ${strategy ?? ""}`];
  if (of("maxSkew", "ha-spread"))
    yield ["maxSkew", `means nothing to strategy ${strategy ?? ""}; spread has its own`];
  if (rules.gpuType !== undefined && rules.gpuCount === undefined)
    yield ["gpuType", "needs gpuCount: how many of them"];
  for (const [at, { key, operator, value }] of (rules.tolerations ?? []).entries()) {
    if (operator === "Exists" && value !== undefined)
      yield [`tolerations[${at}].value`, "is not looked at with Exists"];
    if (operator === "Equal" && key === undefined) yield [`tolerations[${at}].key`, "is needed with Equal"];
  }
}

function termsOf(name: string, affinity: GuestAffinity | undefined): readonly (readonly [string, string])[] {
  return (["required", "preferred"] as const).flatMap((list) =>
    (affinity?.[list] ?? []).map(({ guests }, at) => [`${name}.${list}[${at}].guests`, guests] as const),
  );
}

function selectorFault(text: string): string | undefined {
  try {
    parseLabelSelector(text);
    return undefined;
  } catch (err) {
    return `is no label selector: ${messageOf(err).replace(/^cannot read labelSelector: /, "")}`;
  }
}
