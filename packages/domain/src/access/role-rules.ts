// Roles written as rules, as Kubernetes has them: apiGroups, resources, verbs, resourceNames. They are a second notation
// for privileges and nothing else, so a rule that no set of privileges says exactly is refused, with what would do.
import type { AppError } from "@gpve/contracts/errors.ts";
import { invalidField } from "@gpve/contracts/invalid-field.ts";
import { PRIVILEGES } from "./builtin-roles.ts";
import {
  PATH_OF_ONE,
  RESOURCE_ALIASES,
  RULE_API_GROUP,
  RULE_ATOMS,
  VERBS,
  WHOLE_VERBS,
  WITHOUT_PRIVILEGE,
} from "./rule-table.ts";
import { sortedUnique } from "./sorting.ts";

export interface RoleRule {
  readonly apiGroups?: readonly string[];
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly resourceNames?: readonly string[];
}

const ANY = "*";
const RESOURCES = sortedUnique(RULE_ATOMS.map(({ resource }) => resource));

/** Sorted. Throws request.invalid naming the rule and the reason. */
export function privilegesOfRules(rules: readonly RoleRule[]): readonly string[] {
  return sortedUnique(rules.flatMap((rule, at) => privilegesOfRule(rule, `spec.rules[${at}]`)));
}

/** One rule for each set of verbs, resources together; undefined names (of a newer version) are left out. */
export function rulesOfPrivileges(
  privileges: readonly string[],
): readonly Required<Omit<RoleRule, "resourceNames">>[] {
  const held = new Set(privileges);
  if (PRIVILEGES.every((name) => held.has(name))) return [rule([ANY], [ANY])];
  const verbsOf = new Map<string, string[]>();
  for (const { privilege, resource, verbs } of RULE_ATOMS) {
    if (held.has(privilege)) verbsOf.set(resource, [...(verbsOf.get(resource) ?? []), ...verbs]);
  }
  const byVerbs = Map.groupBy(verbsOf.keys(), (resource) => inOrder(verbsOf.get(resource) ?? []).join(" "));
  return [...byVerbs].map(([verbs, resources]) => rule(sortedUnique(resources), verbs.split(" ")));
}

function rule(
  resources: readonly string[],
  verbs: readonly string[],
): Required<Omit<RoleRule, "resourceNames">> {
  return { apiGroups: [RULE_API_GROUP], resources: [...resources], verbs: [...verbs] };
}

function privilegesOfRule(rule: RoleRule, place: string): readonly string[] {
  const group = rule.apiGroups?.find((name) => name !== RULE_API_GROUP && name !== ANY);
  if (group !== undefined)
    throw bad(
      `${place}.apiGroups`,
      `'${group}' has no resources here; all of them are of '${RULE_API_GROUP}'`,
    );
  requireKnownVerbs(rule.verbs, `${place}.verbs`);
  const names = rule.resourceNames ?? [];
  if (names.length > 0)
    throw bad(`${place}.resourceNames`, oneByBinding(names[0] ?? "", rule.resources[0] ?? ""));
  const every = rule.verbs.includes(ANY);
  if (rule.resources.includes(ANY)) {
    // Reading everything would be reading credentials, too: who means that names them.
    if (!every)
      throw bad(
        `${place}.resources`,
        "'*' goes only with the verb '*', which is everything; name the resources",
      );
    return PRIVILEGES;
  }
  return rule.resources.flatMap((name) => {
    const resource = resourceOf(name, place);
    return every ? allOn(resource) : exactly(resource, rule.verbs, place);
  });
}

/** Everything on a resource itself; what lies below it (virtualmachines/console) is named on its own. */
function allOn(resource: string): readonly string[] {
  return partsOf(resource).flatMap((part) => part.privileges);
}

function exactly(resource: string, verbs: readonly string[], place: string): readonly string[] {
  const parts = partsOf(resource).filter((part) => part.verbs.some((verb) => verbs.includes(verb)));
  for (const part of parts) {
    const left = part.verbs.filter((verb) => !verbs.includes(verb));
    if (left.length > 0) throw bad(`${place}.verbs`, goTogether(resource, part, left));
  }
  const idle = verbs.find((verb) => !parts.some((part) => part.verbs.includes(verb)));
  if (idle !== undefined) {
    const known = inOrder(partsOf(resource).flatMap((part) => part.verbs));
    throw bad(`${place}.verbs`, `'${idle}' on ${resource} maps to nothing; it knows ${known.join(", ")}`);
  }
  return parts.flatMap((part) => part.privileges);
}

interface Part {
  readonly verbs: readonly string[];
  readonly privileges: readonly string[];
}

/** What can be said about a resource, each part all or nothing. */
function partsOf(resource: string): readonly Part[] {
  const own = RULE_ATOMS.filter((atom) => atom.resource === resource);
  const whole = WHOLE_VERBS.filter((one) => one.resource === resource);
  return [
    ...own.map(({ verbs, privilege }) => ({ verbs, privileges: [privilege] })),
    ...whole.map(({ verbs, within }) => ({
      verbs,
      privileges: PRIVILEGES.filter((name) => within.test(name)),
    })),
  ];
}

function goTogether(resource: string, part: Part, left: readonly string[]): string {
  const named = part.verbs.filter((verb) => !left.includes(verb));
  return `'${named.join("', '")}' on ${resource} cannot be given without '${left.join("', '")}': ${part.privileges.join(", ")} is all of them, so name them together`;
}

function resourceOf(name: string, place: string): string {
  const [head = "", ...rest] = name.toLowerCase().split("/");
  const resource = [RESOURCE_ALIASES[head] ?? head, ...rest].join("/");
  if (RESOURCES.includes(resource)) return resource;
  const instead = WITHOUT_PRIVILEGE[resource];
  if (instead !== undefined)
    throw bad(`${place}.resources`, `'${name}' has no privileges of its own: ${instead}`);
  const below = RESOURCES.filter((one) => one.startsWith(`${resource.split("/")[0] ?? ""}/`));
  const known = below.length > 0 ? below : RESOURCES.filter((one) => !one.includes("/"));
  throw bad(`${place}.resources`, `'${name}' maps to nothing; there are ${known.join(", ")}`);
}

function oneByBinding(name: string, resource: string): string {
  const head = resource.toLowerCase().split("/")[0] ?? "";
  const path = PATH_OF_ONE[RESOURCE_ALIASES[head] ?? head];
  return `a role is about all objects below the path it is bound on, so it cannot name '${name}': leave resourceNames out and bind the role on ${path ?? "the path it is below"}`;
}

function requireKnownVerbs(verbs: readonly string[], place: string): void {
  const unknown = verbs.find((verb) => verb !== ANY && !VERBS.includes(verb));
  if (unknown !== undefined) throw bad(place, `'${unknown}' is no verb; use ${VERBS.join(", ")} or *`);
}

function inOrder(verbs: readonly string[]): string[] {
  return VERBS.filter((verb) => verbs.includes(verb));
}

function bad(field: string, why: string): AppError {
  return invalidField(field, why, `the Role is not valid: ${field}: ${why}`);
}
