// Evaluates the permissions that kinds and routes declare, on the one access view both faces share.
import { AppError } from "@gpve/contracts/errors.ts";
import { fieldAt, fieldText, fillTemplate } from "@gpve/contracts/v1/field-path.ts";
import type { V1Permission } from "@gpve/contracts/v1/permission.ts";
import { mayAuditPermissions, mayModifyPermissions } from "@gpve/domain/access/permission-check.ts";
import type { AccessView, Actor, Viewer } from "@gpve/domain/request/context.ts";

/** The object as it is and as it is to be; either may be missing. Templates read the one that is there. */
export interface Target {
  readonly current?: unknown;
  readonly desired?: unknown;
}

export function mayDo(rule: V1Permission, subject: Viewer, target: Target): boolean {
  if ("anyOf" in rule) return rule.anyOf.some((part) => mayDo(part, subject, target));
  if ("allOf" in rule) return rule.allOf.every((part) => mayDo(part, subject, target));
  if (rule.allow === "anonymous") return true;
  const { actor, access } = subject;
  if (actor === undefined) return false;
  switch (rule.allow) {
    case "authenticated":
      return true;
    case "owner":
      return owns(actor, fieldText(target.current ?? target.desired, rule.field));
    case "privilege":
      return pathsOf(rule.path, target, rule.above).every((path) =>
        access.has(path, rule.privileges, rule.mode),
      );
    case "acl-modify":
      return pathsOf(rule.path, target).every((path) => mayModifyPermissions(access, path));
    case "acl-audit":
      return pathsOf(rule.path, target).every((path) => mayAuditPermissions(access, path));
    case "tenant":
      return tenantsOf(target).every(
        (name) => name !== undefined && access.has(`/pool/${name}`, rule.privileges, "any"),
      );
    case "user-group":
      return mayTouchUser(rule.privileges, access, target);
  }
}

/** Throws access.denied in PVE's words, naming the privilege that is missing where there is one. */
export function requireMay(rule: V1Permission, subject: Viewer, target: Target): void {
  if (mayDo(rule, subject, target)) return;
  if (subject.actor === undefined)
    throw new AppError("auth.required", "this needs credentials: log in or send an API token");
  const missing = firstMissing(rule, subject, target);
  throw new AppError(
    "access.denied",
    `Permission check failed${missing === undefined ? "" : ` (${missing})`}`,
  );
}

function firstMissing(rule: V1Permission, subject: Viewer, target: Target): string | undefined {
  if ("anyOf" in rule) {
    // With alternatives the last one is the administrator's way: the one worth naming.
    return rule.anyOf
      .map((part) => firstMissing(part, subject, target))
      .findLast((text) => text !== undefined);
  }
  if ("allOf" in rule) {
    const failed = rule.allOf.find((part) => !mayDo(part, subject, target));
    return failed === undefined ? undefined : firstMissing(failed, subject, target);
  }
  switch (rule.allow) {
    case "privilege": {
      const path = pathsOf(rule.path, target, rule.above).find(
        (one) => !subject.access.has(one, rule.privileges, rule.mode),
      );
      const wanted =
        rule.mode === "any" || path === undefined
          ? rule.privileges.join("|")
          : rule.privileges.find((name) => !subject.access.has(path, [name]));
      return `${path ?? rule.path}, ${wanted ?? rule.privileges.join("|")}`;
    }
    case "acl-modify": {
      const [path = rule.path] = pathsOf(rule.path, target);
      return `${path}, Permissions.Modify`;
    }
    case "acl-audit":
      return "/access, Sys.Audit";
    case "tenant": {
      const name = tenantsOf(target).find(
        (one) => one === undefined || !subject.access.has(`/pool/${one}`, rule.privileges, "any"),
      );
      // Who has no tenant to name is told of the administrator's way.
      return name === undefined ? undefined : `/pool/${name}, ${rule.privileges.join("|")}`;
    }
    case "user-group":
      return `/access/groups, ${rule.privileges.join("|")}`;
    case "anonymous":
    case "authenticated":
    case "owner":
      return undefined;
  }
}

/** Both where it is and where it would go must be allowed. A template without its field allows nothing below. */
function pathsOf(template: string, target: Target, above = false): readonly string[] {
  const paths = [target.current, target.desired]
    .filter((object) => object !== undefined)
    .map((object) => fillTemplate(template, object))
    .filter((path) => path !== undefined);
  const found = paths.length > 0 ? paths : [template.replaceAll(/\{[^}]+\}/g, "-")];
  return above ? found.map((path) => path.slice(0, path.lastIndexOf("/"))) : found;
}

/** The tenants it is in and would be in; one that is not said stays as it is. */
function tenantsOf({ current, desired }: Target): readonly (string | undefined)[] {
  const before = fieldText(current, "metadata.namespace");
  const after = fieldText(desired, "metadata.namespace") ?? before;
  if (current === undefined) return [after];
  return desired === undefined ? [before] : [before, after];
}

/** A user sees what the user's tokens own; a token only its own. */
function owns(actor: Actor, named: string | undefined): boolean {
  if (named === undefined) return false;
  if (named === actor.authid) return true;
  return actor.tokenid === undefined && named.startsWith(`${actor.userid}!`);
}

/**
 * PVE's userid-group rule: the privileges on /access/groups, or on a group of the user as it is; and on every
 * group the user would enter or leave.
 */
function mayTouchUser(privileges: readonly string[], access: AccessView, target: Target): boolean {
  if (access.has("/access/groups", privileges, "any")) return true;
  const may = (group: string): boolean => access.has(`/access/groups/${group}`, privileges, "any");
  const current = groupsOf(target.current);
  const desired = target.desired === undefined ? current : groupsOf(target.desired);
  const changed = [...current, ...desired].filter(
    (group) => !(current.includes(group) && desired.includes(group)),
  );
  if (target.current === undefined && desired.length === 0) return false;
  if (target.current !== undefined && !current.some(may)) return false;
  return changed.every(may);
}

function groupsOf(user: unknown): readonly string[] {
  const groups = fieldAt(user, "spec.groups");
  return Array.isArray(groups) ? groups.map(String) : [];
}
