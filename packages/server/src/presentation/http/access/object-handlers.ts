import { isBuiltinRole } from "@gpve/domain/access/builtin-roles.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Access } from "../../../application/access/access.ts";
import { tfaTypeOf } from "../../../application/access/realms.ts";
import { flag } from "./wire-flag.ts";

/** Groups, roles, the access control list and realms. */
export function objectHandlers({ groups, roles, acl, realms }: Access): PveHandlers {
  return {
    "GET /access/groups": (_params, ctx) =>
      groups
        .list(ctx)
        .map(({ groupid, comment, members }) => ({ groupid, comment, users: members.join(",") })),
    "POST /access/groups": ({ groupid, comment }) => groups.create(groupid, comment),
    "GET /access/groups/{groupid}": ({ groupid }) => {
      const { members, comment } = groups.get(groupid);
      return { members, comment };
    },
    "PUT /access/groups/{groupid}": ({ groupid, comment }) => groups.update(groupid, comment),
    "DELETE /access/groups/{groupid}": ({ groupid }) => groups.remove(groupid),

    "GET /access/roles": () =>
      roles.list().map(({ roleid, privileges }) => ({
        roleid,
        privs: privileges.join(","),
        special: flag(isBuiltinRole(roleid)),
      })),
    "POST /access/roles": ({ roleid, privs }) => roles.create(roleid, privs),
    "GET /access/roles/{roleid}": ({ roleid }) =>
      Object.fromEntries(roles.get(roleid).privileges.map((privilege) => [privilege, 1])),
    "PUT /access/roles/{roleid}": ({ roleid, privs, append }) => roles.update(roleid, privs, append === true),
    "DELETE /access/roles/{roleid}": ({ roleid }) => roles.remove(roleid),

    "GET /access/acl": (_params, ctx) =>
      acl.list(ctx).map(({ propagate, ...row }) => ({ ...row, propagate: flag(propagate) })),
    "PUT /access/acl": ({ delete: remove, ...change }, ctx) => acl.change({ ...change, remove }, ctx),

    "GET /access/domains": () =>
      realms.list().map((realm) => ({
        realm: realm.realm,
        type: realm.type,
        comment: realm.comment,
        ...(realm.default === true ? { default: 1 } : {}),
        tfa: tfaTypeOf(realm),
      })),
    "POST /access/domains": ({ realm, type }) => realms.create(realm, type),
    "GET /access/domains/{realm}": ({ realm: id }) => {
      const { realm: _id, default: isDefault, ...settings } = realms.get(id);
      return { ...settings, ...(isDefault === true ? { default: 1 } : {}) };
    },
    "PUT /access/domains/{realm}": (params) => {
      const { realm, comment, default: isDefault, tfa, delete: remove, digest, ...others } = params;
      const given = Object.entries(others).filter(([, value]) => value !== undefined);
      return realms.update(
        realm,
        { comment, default: isDefault, tfa },
        { remove, digest, others: given.map(([name]) => name) },
      );
    },
    "DELETE /access/domains/{realm}": ({ realm }) => realms.remove(realm),
    "POST /access/domains/{realm}/sync": ({ realm }) => realms.sync(realm),
  };
}
