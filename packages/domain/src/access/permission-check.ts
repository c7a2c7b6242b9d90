// Evaluates the permission a method declares (wire contract, section 6) for one request.
//
// PVE's own evaluator has edges that clients can see and that are kept: "and" reports the first failure by
// name even below an "or"; the other tests stay silent there, so an "or" ends in a bare text.
import { missing } from "../request/failures.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { PveCheck, PvePermission } from "@gpve/contracts/pve/schema.ts";
import type { AccessView, Actor } from "../request/context.ts";
import { isRoot } from "../request/context.ts";
import { permissionDenied } from "./access-view.ts";
import { normalizeAclPath } from "./acl-path.ts";
import { requireUserid, listedNames } from "./ids.ts";
import type { AccessModel } from "./model.ts";
import {
  administers,
  allocatesUsers,
  entersGroup,
  requireNotBeyond,
  seesUsersOf,
  tenantOfNewUser,
} from "./tenant-users.ts";

export interface PermissionSubject {
  readonly actor: Actor | undefined;
  readonly access: AccessView;
  readonly model: AccessModel;
}

export type CheckParams = Readonly<Record<string, unknown>>;

/** Returns when the method is allowed, throws AppError (access.denied, or PVE's 500 for an unknown user). */
export function checkPermission(
  permission: PvePermission,
  params: CheckParams,
  subject: PermissionSubject,
): void {
  if (permission !== null && permission.user === "world") return;
  const { actor } = subject;
  if (actor === undefined) throw permissionDenied("user != null");
  if (isRoot(actor)) return;
  if (permission === null) throw permissionDenied("user != root@pam");
  if (permission.user === "all") return;
  if (!("check" in permission)) throw permissionDenied();
  evaluate(permission.check, params, { ...subject, actor }, false);
}

/** Changing permissions on a path; guests, storages and pools also by who may allocate them. */
export function requirePermissionModify(access: AccessView, path: string): void {
  access.require(path, permissionModifiers(path), "any");
}

export function mayModifyPermissions(access: AccessView, path: string): boolean {
  const own = isOfTenant(path) ? ["Tenant.Bindings"] : [];
  return access.has(path, [...permissionModifiers(path), ...own], "any");
}

/** Seeing who has which role on a path. */
export function mayAuditPermissions(access: AccessView, path: string): boolean {
  if (access.has("/access", ["Sys.Audit"]) || mayModifyPermissions(access, path)) return true;
  return isOfTenant(path) && access.has(path, ["Tenant.Audit"]);
}

/** Pools and guests are one tenant's; storages and networks may be shared by several. */
function isOfTenant(path: string): boolean {
  return /^\/(?:pool|vms)\/./.test(path);
}

/** Users the subject may see or change by privileges on their groups. */
export function usersInGroupsWith(
  model: AccessModel,
  access: AccessView,
  privileges: readonly string[],
): ReadonlySet<string> {
  const users = new Set<string>();
  for (const [groupid, members] of model.members) {
    if (!access.has(`/access/groups/${groupid}`, privileges, "any")) continue;
    for (const userid of members) users.add(userid);
  }
  return users;
}

export function noSuchUser(userid: string): AppError {
  return missing(`no such user ('${userid}')`);
}

interface KnownSubject extends PermissionSubject {
  readonly actor: Actor;
}

function evaluate(check: PveCheck, params: CheckParams, subject: KnownSubject, silent: boolean): boolean {
  const [test, ...rest] = check;
  switch (test) {
    case "and":
      for (const part of rest) evaluate(asCheck(part), params, subject, false);
      return true;
    case "or":
      if (rest.some((part) => evaluate(asCheck(part), params, subject, true))) return true;
      return refuse(silent);
    case "perm":
      return checkPerm(rest, params, subject, silent);
    case "userid-param":
      return checkUseridParam(rest[0], params, subject, silent);
    case "userid-group":
      return checkUseridGroup(rest, params, subject, silent);
    case "perm-modify":
      return checkPermModify(paramText(rest[0]) ?? "", params, subject, silent);
    default:
      throw new AppError("internal.error", `unknown permission test '${String(test)}'`);
  }
}

function checkPerm(
  [template, privileges, ...options]: readonly unknown[],
  params: CheckParams,
  subject: KnownSubject,
  silent: boolean,
): boolean {
  const required = option(options, "require_param");
  if (required !== undefined && params[paramText(required) ?? ""] === undefined) return refuse(silent);
  const path = normalizeAclPath(fillTemplate(paramText(template) ?? "", params));
  const mode = isSet(option(options, "any")) ? "any" : "all";
  const wanted = asStrings(privileges);
  if (path === undefined) return refuse(silent, `, ${mode === "any" ? wanted.join("|") : wanted[0]}`);
  if (subject.access.has(path, wanted, mode)) return true;
  if (silent) return false;
  subject.access.require(path, wanted, mode);
  return true;
}

function checkUseridParam(
  what: unknown,
  params: CheckParams,
  subject: KnownSubject,
  silent: boolean,
): boolean {
  const { userid, realm } = requireUserid(params["userid"]);
  if (what === "self") {
    if (!userExists(subject.model, userid, silent)) return false;
    return subject.actor.authid === userid ? true : refuse(silent);
  }
  if (what !== "Realm.AllocateUser") {
    throw new AppError("internal.error", `unknown userid-param test '${String(what)}'`);
  }
  const path = `/access/realm/${realm}`;
  const { access, model } = subject;
  if (access.has(path, [what])) return true;
  if (model.users.has(userid)) {
    if (administers(model, access, userid)) return true;
  } else if (tenantOfNewUser(model, access, realm) !== undefined) return true;
  return refuse(silent, `${path}, ${what}`);
}

function checkUseridGroup(
  [privileges, ...options]: readonly unknown[],
  params: CheckParams,
  subject: KnownSubject,
  silent: boolean,
): boolean {
  const { access, model } = subject;
  const wanted = asStrings(privileges);
  const groupsParam = option(options, "groups_param");
  const existing = groupsParam !== "create";
  if (existing && !userExists(model, requireUserid(params["userid"]).userid, silent)) return false;
  if (access.has("/access/groups", wanted, "any")) return true;
  if (isOfAdministeredTenant(wanted, params, subject)) return true;
  if (groupsParam !== undefined) {
    const named = listedNames(paramText(params["groups"]));
    if (named.length === 0) throw permissionDenied(`/access/groups, ${wanted.join("|")}`);
    for (const group of named) {
      const path = `/access/groups/${group}`;
      if (!model.groups.has(group) || !access.has(path, wanted, "any")) {
        throw permissionDenied(`${path}, ${wanted.join("|")}`);
      }
    }
  }
  if (existing && !usersInGroupsWith(model, access, wanted).has(paramText(params["userid"]) ?? "")) {
    return refuse(silent);
  }
  return true;
}

/**
 * Users of a tenant, by who administers them. Throws where the user may do more than that, or would enter a group that
 * is not his to fill.
 */
function isOfAdministeredTenant(
  wanted: readonly string[],
  params: CheckParams,
  { access, model }: KnownSubject,
): boolean {
  const { userid, realm } = requireUserid(params["userid"]);
  const known = model.users.get(userid);
  if (wanted.includes("Sys.Audit")) return seesUsersOf(access, known?.tenant);
  const groups = listedNames(paramText(params["groups"]));
  if (known === undefined) {
    if (allocatesUsers(model, access, { realm, groups })) return false;
    if (tenantOfNewUser(model, access, realm) === undefined) return false;
  } else {
    if (!administers(model, access, userid)) return false;
    requireNotBeyond(model, access, userid);
  }
  const foreign = groups.find(
    (group) => known?.groups.includes(group) !== true && !entersGroup(model, access, group),
  );
  if (foreign !== undefined) throw permissionDenied(`/access/groups/${foreign}, User.Modify`);
  return true;
}

function checkPermModify(
  template: string,
  params: CheckParams,
  subject: KnownSubject,
  silent: boolean,
): boolean {
  const path = normalizeAclPath(fillTemplate(template, params));
  // Not a path at all: parameter validation answers that with a 400, so it is not decided here.
  if (path === undefined) return true;
  if (mayModifyPermissions(subject.access, path)) return true;
  if (!silent) requirePermissionModify(subject.access, path);
  return false;
}

function permissionModifiers(path: string): string[] {
  const privileges = ["Permissions.Modify"];
  if (/^\/storage\/.+/.test(path)) privileges.push("Datastore.Allocate");
  else if (/^\/vms\/.+/.test(path)) privileges.push("VM.Allocate");
  else if (/^\/pool\/.+/.test(path)) privileges.push("Pool.Allocate");
  return privileges;
}

function userExists(model: AccessModel, userid: string, silent: boolean): boolean {
  if (model.users.has(userid)) return true;
  if (silent) return false;
  throw noSuchUser(userid);
}

function refuse(silent: boolean, what?: string): false {
  if (silent) return false;
  throw permissionDenied(what);
}

/** `{name}` becomes the parameter, or "-" when it was not given. */
function fillTemplate(template: string, params: CheckParams): string {
  let parts = templates.get(template);
  if (parts === undefined) {
    parts = template.split(/\{([^}]+)\}/);
    templates.set(template, parts);
  }
  // Every second part is a name.
  let path = parts[0] ?? "";
  for (let at = 1; at < parts.length; at += 2) {
    path += `${paramText(params[parts[at] ?? ""]) ?? "-"}${parts[at + 1] ?? ""}`;
  }
  return path;
}

/** Templates come from declarations, so there are only so many. */
const templates = new Map<string, readonly string[]>();

function option(options: readonly unknown[], name: string): unknown {
  const index = options.indexOf(name);
  return index === -1 ? undefined : options[index + 1];
}

function isSet(value: unknown): boolean {
  return value === 1 || value === true || value === "1";
}

/** A parameter as paths show it; undefined = it was not given. */
export function paramText(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  if (typeof value === "boolean") return value ? "1" : "0";
  return Array.isArray(value) ? value.map((item) => paramText(item) ?? "").join(",") : undefined;
}

function asStrings(value: unknown): string[] {
  return Array.isArray(value) ? value.map(String) : [];
}

function asCheck(value: unknown): PveCheck {
  if (Array.isArray(value)) return value;
  throw new AppError("internal.error", "a permission check must be a list");
}
