import facts from "@gpve/contracts/gen/roles.json" with { type: "json" };
import { byText } from "./sorting.ts";
import type { Role } from "./types.ts";

export const NO_ACCESS = "NoAccess";
export const ADMINISTRATOR = "Administrator";

/** Every privilege there is, sorted. */
export const PRIVILEGES: readonly string[] = facts.privileges.toSorted(byText);

const known: ReadonlySet<string> = new Set(PRIVILEGES);

export function isPrivilege(name: string): boolean {
  return known.has(name);
}

export const BUILTIN_ROLES: ReadonlyMap<string, Role> = new Map(
  Object.entries(facts.roles).map(([roleid, privileges]) => [
    roleid,
    { roleid, privileges: privileges.toSorted(byText) },
  ]),
);

export function isBuiltinRole(roleid: string): boolean {
  return BUILTIN_ROLES.has(roleid);
}
