// Services as the manager and the local managers see them: what the operator configured, and where the guest is now.
import type { GuestRecord } from "../guest/guest-record.ts";
import type { HaGroup, HaResource, HaRuleRecord } from "./collections.ts";
import { sidOf } from "./collections.ts";
import type { ServiceConfig } from "./model.ts";
import { parseRules, rulesFromGroups, type Rules } from "./rules.ts";

/** A resource whose guest is gone is no service. */
export function servicesOf(
  resources: readonly HaResource[],
  guest: (vmid: number) => GuestRecord | undefined,
  groups: readonly HaGroup[] = [],
): ReadonlyMap<string, ServiceConfig> {
  const kept = new Set(groups.filter(({ nofailback }) => nofailback).map(({ group }) => group));
  return new Map(
    resources.flatMap((resource): [string, ServiceConfig][] => {
      const record = guest(Number(resource.sid.split(":")[1]));
      if (record === undefined || sidOf(record) !== resource.sid) return [];
      const { state, maxRestart, maxRelocate, autoRebalance } = resource;
      const failback = resource.failback && !kept.has(resource.group ?? "");
      return [[resource.sid, { node: record.node, state, maxRestart, maxRelocate, failback, autoRebalance }]];
    }),
  );
}

/** Rules in the order in which they were made; groups, where resources still name them, as rules. */
export function rulesOf(
  rules: readonly HaRuleRecord[],
  groups: readonly HaGroup[],
  resources: readonly HaResource[],
): Rules {
  const written = rules.toSorted((a, b) => a.order - b.order).map(sectionOf);
  const members = new Map<string, string[]>();
  for (const { sid, group } of resources)
    if (group !== undefined) members.set(group, [...(members.get(group) ?? []), sid]);
  const old = groups.map(
    ({ group, nodes, restricted, nofailback }) =>
      `group: ${group}\n\tnodes ${nodes}\n\trestricted ${Number(restricted)}\n\tnofailback ${Number(nofailback)}\n`,
  );
  return [...parseRules(written.join("\n")), ...rulesFromGroups(old.join("\n"), members).rules];
}

function sectionOf({ rule, type, resources, nodes, strict, affinity, disable }: HaRuleRecord): string {
  const lines = [`${type}: ${rule}`, `\tresources ${resources.join(",")}`];
  if (nodes !== undefined) lines.push(`\tnodes ${nodes}`);
  if (strict === true) lines.push("\tstrict 1");
  if (affinity !== undefined) lines.push(`\taffinity ${affinity}`);
  if (disable === true) lines.push("\tdisable 1");
  return `${lines.join("\n")}\n`;
}
