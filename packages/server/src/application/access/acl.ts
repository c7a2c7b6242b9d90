import { missing, parameterError } from "@gpve/domain/request/failures.ts";
import { isValidAclPath, normalizeAclPath } from "@gpve/domain/access/acl-path.ts";
import { BUILTIN_ROLES, NO_ACCESS } from "@gpve/domain/access/builtin-roles.ts";
import { requireUserid, listedNames } from "@gpve/domain/access/ids.ts";
import { aclNodes } from "@gpve/domain/access/model.ts";
import { mayAuditPermissions } from "@gpve/domain/access/permission-check.ts";
import type { AclEntry, AclSubject, Role } from "@gpve/domain/access/types.ts";
import type { AccessView, RequestContext } from "@gpve/domain/request/context.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { AccessDirectory } from "@gpve/domain/access/access-directory.ts";
import { aclDef, aclId, groupsDef, rolesDef, tokensDef, usersDef } from "@gpve/domain/access/collections.ts";
import { requireKeepsInherited } from "./keep-inherited.ts";
import { prefixed } from "./prefixed.ts";

export interface AclChange {
  readonly path: string;
  readonly roles: string;
  readonly users?: string | undefined;
  readonly groups?: string | undefined;
  readonly tokens?: string | undefined;
  readonly propagate?: boolean | undefined;
  readonly remove?: boolean | undefined;
}

export class AccessControlList {
  readonly #records: Records;
  readonly #directory: AccessDirectory;

  constructor({ records, directory }: { readonly records: Records; readonly directory: AccessDirectory }) {
    this.#records = records;
    this.#directory = directory;
  }

  /** Entries on paths whose permissions the caller may change, or audit in his tenant; all of them with Sys.Audit on /access. */
  list(ctx: RequestContext): AclEntry[] {
    const rows: AclEntry[] = [];
    for (const node of aclNodes(this.#directory.model().acl)) {
      if (!mayAuditPermissions(ctx.access, node.path)) continue;
      const kinds = { user: node.users, group: node.groups, token: node.tokens } as const;
      for (const type of ["user", "group", "token"] as const satisfies AclSubject[]) {
        for (const [ugid, roles] of kinds[type]) {
          for (const [roleid, propagate] of roles)
            rows.push({ path: node.path, type, ugid, roleid, propagate });
        }
      }
    }
    return rows;
  }

  async change(input: AclChange, ctx: RequestContext): Promise<void> {
    if (!input.users && !input.groups && !input.tokens) {
      const text = "either 'users', 'groups' or 'tokens' is required.";
      throw parameterError({ users: text, groups: text, tokens: text });
    }
    const path = normalizeAclPath(input.path);
    if (path === undefined || (input.remove !== true && !isValidAclPath(path))) {
      throw parameterError({ path: `invalid ACL path '${input.path}'` });
    }
    await prefixed("ACL update failed", () =>
      this.#records.transact((tx) => {
        for (const roleid of listedNames(input.roles)) {
          const role = BUILTIN_ROLES.get(roleid) ?? tx.get(rolesDef, roleid)?.value;
          if (role === undefined) throw missing(`role '${roleid}' does not exist`);
          requireGrantable(role, path, input, ctx.access);
          for (const subject of subjectsOf(tx, input)) {
            const entry = { path, ...subject, roleid, propagate: input.propagate ?? true };
            if (input.remove === true) tx.delete(aclDef, aclId(entry));
            else {
              requireKeepsInherited(tx, entry, ctx.access);
              tx.put(aclDef, aclId(entry), entry);
            }
          }
        }
      }),
    );
  }
}

/** Takes every entry away that `doomed` names; part of deleting what it refers to. */
export function removeAclEntries(tx: Tx, doomed: (entry: AclEntry) => boolean): void {
  for (const { id, value } of tx.list(aclDef)) if (doomed(value)) tx.delete(aclDef, id);
}

/**
 * Whoever may allocate an object may share it, but hands out no more than he holds there: only
 * Permissions.Modify gives away anything.
 */
export function requireGrantable(
  role: Role,
  path: string,
  input: Pick<AclChange, "propagate" | "remove">,
  access: AccessView,
): void {
  const held = access.privileges(path);
  if (held.has("Permissions.Modify")) return;
  const verb = input.remove === true ? "remove" : "add";
  const refuse = (why: string): Error =>
    parameterError({ role: `Cannot ${verb} role '${role.roleid}'${why}` });
  for (const privilege of role.privileges) {
    const propagates = held.get(privilege);
    if (propagates === undefined) throw refuse(" - requires 'Permissions.Modify' or superset of privileges.");
    if ((input.propagate ?? true) && !propagates) {
      throw refuse(" with propagation - requires 'Permissions.Modify' or propagated superset of privileges.");
    }
  }
  if (role.roleid === NO_ACCESS) throw refuse(" - requires 'Permissions.Modify'");
}

function subjectsOf(tx: Tx, input: AclChange): { type: AclSubject; ugid: string }[] {
  const subjects: { type: AclSubject; ugid: string }[] = [];
  for (const ugid of listedNames(input.groups)) {
    if (tx.get(groupsDef, ugid) === undefined) throw missing(`group '${ugid}' does not exist`);
    subjects.push({ type: "group", ugid });
  }
  for (const ugid of listedNames(input.users)) {
    requireUserid(ugid);
    if (ugid !== ROOT_USER && tx.get(usersDef, ugid) === undefined)
      throw missing(`user '${ugid}' does not exist`);
    subjects.push({ type: "user", ugid });
  }
  for (const ugid of listedNames(input.tokens)) {
    if (tx.get(tokensDef, ugid) === undefined) {
      const [userid = "", tokenid = ""] = ugid.split("!");
      throw missing(`no such token '${tokenid}' for user '${userid}'`);
    }
    subjects.push({ type: "token", ugid });
  }
  return subjects;
}
