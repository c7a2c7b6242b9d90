// Users that belong to a tenant, and who administers them: whoever has Tenant.Users on the tenant's path. He gets no hold
// of a user who may do anything that he may not, for whoever can set a password or make a token can be that user.
import { AppError } from "@gpve/contracts/errors.ts";
import type { AccessView } from "../request/context.ts";
import { permissionDenied } from "./access-view.ts";
import { aclNodes, type AccessModel } from "./model.ts";
import { privilegeSource } from "./privileges.ts";
import { byText } from "./sorting.ts";

const CHANGE = ["Tenant.Users"];
const READ = ["Tenant.Users", "Tenant.Audit"];

/** Of realms whose accounts are ours alone: others name people of the host or of a directory. */
const TENANT_REALMS: ReadonlySet<string> = new Set(["pve"]);

export function seesUsersOf(access: AccessView, tenant: string | undefined): boolean {
  return tenant !== undefined && access.has(`/pool/${tenant}`, READ, "any");
}

/** Whether the user is one of a tenant that the subject administers. */
export function administers(model: AccessModel, access: AccessView, userid: string): boolean {
  const tenant = model.users.get(userid)?.tenant;
  return tenant !== undefined && access.has(`/pool/${tenant}`, CHANGE);
}

/** Throws access.denied, naming where the user may do more. Part of every change of a tenant's user. */
export function requireNotBeyond(model: AccessModel, access: AccessView, userid: string): void {
  const found = beyond(model, access, userid);
  if (found === undefined) return;
  const { path, privilege } = found;
  throw permissionDenied(
    `${path}, ${privilege}: user '${userid}' has it there and you have not, so the user is not yours to manage`,
  );
}

function beyond(
  model: AccessModel,
  access: AccessView,
  userid: string,
): { readonly path: string; readonly privilege: string } | undefined {
  const theirs = privilegeSource(model, userid, "whenever");
  for (const { path } of aclNodes(model.acl)) {
    const held = access.privileges(path);
    for (const [privilege, propagate] of theirs.privileges(path)) {
      const own = held.get(privilege);
      if (own === undefined || (propagate && !own)) return { path, privilege };
    }
  }
  return undefined;
}

/** The tenants whose users the subject administers, without those below others of them. */
function homeTenants(model: AccessModel, access: AccessView): readonly string[] {
  const held = [...model.pools.keys()].filter((id) => access.has(`/pool/${id}`, CHANGE)).toSorted(byText);
  return held.filter((id) => !held.some((other) => id.startsWith(`${other}/`)));
}

/** Where a new user of this realm would belong; undefined = the subject administers no users. Throws where it is not clear. */
export function tenantOfNewUser(model: AccessModel, access: AccessView, realm: string): string | undefined {
  const [first, second] = homeTenants(model, access);
  if (first === undefined) return undefined;
  requireTenantRealm(model, realm);
  if (second === undefined) return first;
  throw permissionDenied(
    `you administer the users of '${first}', '${second}' and perhaps more: say which under /api/v1, by metadata.namespace`,
  );
}

export function requireTenantRealm(model: AccessModel, realm: string): void {
  const type = model.realms.get(realm)?.type;
  if (type !== undefined && TENANT_REALMS.has(type)) return;
  throw new AppError(
    "access.denied",
    `Permission check failed (/access/realm/${realm}, Realm.AllocateUser: users of tenants are of realms of type 'pve')`,
  );
}

/** PVE's rule for making a user outside of tenants. */
export function allocatesUsers(
  model: AccessModel,
  access: AccessView,
  user: { readonly realm: string; readonly groups: readonly string[] },
): boolean {
  if (!access.has(`/access/realm/${user.realm}`, ["Realm.AllocateUser"])) return false;
  if (access.has("/access/groups", ["User.Modify"])) return true;
  return user.groups.length > 0 && user.groups.every((group) => entersGroup(model, access, group));
}

/** Putting users into a group, or taking them out. */
export function entersGroup(model: AccessModel, access: AccessView, group: string): boolean {
  return model.groups.has(group) && access.has(`/access/groups/${group}`, ["User.Modify"]);
}
