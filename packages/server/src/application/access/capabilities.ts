// What a user may do, summed up: `cap` of a login (for user interfaces) and the whole map of /access/permissions.
import type { AccessModel } from "@gpve/domain/access/model.ts";
import { aclNodes } from "@gpve/domain/access/model.ts";
import { byText } from "@gpve/domain/access/sorting.ts";
import type { AccessView } from "@gpve/domain/request/context.ts";

export type Capabilities = Readonly<Record<string, Readonly<Record<string, 1>>>>;

const AREAS: ReadonlyMap<string, RegExp> = new Map([
  ["vms", /^(?:VM\.|Permissions\.Modify)/],
  ["access", /^(?:(?:User|Group)\.|Permissions\.Modify)/],
  ["storage", /^(?:Datastore\.|Permissions\.Modify)/],
  ["nodes", /^(?:Sys\.|Permissions\.Modify)/],
  ["sdn", /^(?:SDN\.|Permissions\.Modify)/],
  ["dc", /^(?:Sys\.Audit|Sys\.Modify|SDN\.)/],
  ["mapping", /^(?:Mapping\.|Permissions\.Modify)/],
]);

const ALWAYS = ["/", "/nodes", "/access/groups", "/vms", "/storage", "/sdn", "/mapping"];

export function capabilities(model: AccessModel, access: AccessView): Capabilities {
  const cap: Record<string, Record<string, 1>> = Object.fromEntries(
    [...AREAS.keys()].map((area) => [area, {}]),
  );
  const grant = (area: string, privilege: string): void => {
    const held = cap[area];
    if (held !== undefined) held[privilege] = 1;
  };
  const paths = new Set([...ALWAYS, ...[...aclNodes(model.acl)].map((node) => node.path)]);
  for (const path of paths) {
    const area = /^\/(\w+)/.exec(path)?.[1] ?? "dc";
    for (const privilege of access.privileges(path).keys()) {
      if (area === "pool") {
        if (AREAS.get("vms")?.test(privilege) === true) grant("vms", privilege);
        if (AREAS.get("storage")?.test(privilege) === true) grant("storage", privilege);
      } else if (AREAS.get(area)?.test(privilege) === true) {
        grant(area, privilege);
      }
    }
  }
  return cap;
}

const TOP_LEVEL = ["/", "/access", "/access/groups", "/nodes", "/pool", "/sdn", "/storage", "/vms"];

/** Every path something is said about -> privilege -> whether it propagates. Paths without any are left out. */
export function effectivePermissions(
  model: AccessModel,
  access: AccessView,
): Record<string, Record<string, boolean>> {
  const paths = new Set([
    ...TOP_LEVEL,
    ...[...aclNodes(model.acl)].map((node) => node.path),
    ...model.poolsOf.keys(),
  ]);
  const found: Record<string, Record<string, boolean>> = {};
  for (const path of [...paths].toSorted(byText)) {
    const privileges = access.privileges(path);
    if (privileges.size > 0) found[path] = Object.fromEntries(privileges);
  }
  return found;
}
