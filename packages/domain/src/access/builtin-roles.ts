import facts from "@gpve/contracts/gen/roles.json" with { type: "json" };
import { OWN_PRIVILEGES, OWN_ROLES } from "./own-roles.ts";
import { byText, sortedUnique } from "./sorting.ts";
import type { Role } from "./types.ts";

export const NO_ACCESS = "NoAccess";
export const ADMINISTRATOR = "Administrator";

/** Every privilege there is, sorted. */
export const PRIVILEGES: readonly string[] = [...facts.privileges, ...Object.keys(OWN_PRIVILEGES)].toSorted(
  byText,
);

const known: ReadonlySet<string> = new Set(PRIVILEGES);

export function isPrivilege(name: string): boolean {
  return known.has(name);
}

/** PVE's roles as PVE has them, but for the one that is everything; then our own. */
export const BUILTIN_ROLES: ReadonlyMap<string, Role> = new Map(
  [
    ...Object.entries(facts.roles),
    [ADMINISTRATOR, PRIVILEGES] as const,
    ...Object.entries(OWN_ROLES).map(([roleid, { privileges }]) => [roleid, privileges] as const),
  ].map(([roleid, privileges]) => [roleid, { roleid, privileges: sortedUnique(privileges) }]),
);

export function isBuiltinRole(roleid: string): boolean {
  return BUILTIN_ROLES.has(roleid);
}
