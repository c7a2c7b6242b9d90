import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { allOf, anyOf, owner, privilege, toRead } from "../permission.ts";
import type { V1Permission } from "../permission.ts";

const modifyUser: V1Permission = { allow: "user-group", privileges: ["User.Modify"] };
const allocateUser = privilege("/access/realm/{realm}", "Realm.AllocateUser");
/** By who administers the tenant that the user is of; the adapter has the rest of the rules. */
const ofTenant: V1Permission = { allow: "tenant", privileges: ["Tenant.Users"] };
const readUser = anyOf(
  owner("metadata.name"),
  { allow: "tenant", privileges: ["Tenant.Users", "Tenant.Audit"] },
  { allow: "user-group", privileges: ["User.Modify", "Sys.Audit"] },
);

export const userKind: KindDeclaration = {
  kind: "User",
  plural: "users",
  aliases: ["user"],
  scope: "cluster",
  namespaced: true,
  description:
    "Someone who can log in, named user@realm. metadata.namespace is the tenant whose administrators manage the user, if there is one. Passwords and tokens are set under /api2.",
  spec: Type.Object(
    {
      enable: Type.Optional(Type.Boolean({ default: true })),
      expire: Type.Optional(
        Type.Integer({ minimum: 0, default: 0, description: "Seconds since the epoch; 0 = never." }),
      ),
      firstname: Type.Optional(Type.String({ maxLength: 1024 })),
      lastname: Type.Optional(Type.String({ maxLength: 1024 })),
      email: Type.Optional(Type.String({ maxLength: 254 })),
      comment: Type.Optional(Type.String({ maxLength: 2048 })),
      groups: Type.Optional(Type.Array(Type.String({ pattern: "^[A-Za-z0-9._-]+$" }), { uniqueItems: true })),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    realm: Type.String(),
    tokens: Type.Array(Type.String()),
  }),
  namePattern: "^[^\\s:/]+@[A-Za-z][A-Za-z0-9._-]+$",
  nameWords: "NAME@REALM, as in joe@pve",
  permissions: {
    ...toRead(readUser),
    create: anyOf(ofTenant, allOf(allocateUser, modifyUser)),
    replace: anyOf(ofTenant, modifyUser),
    patch: anyOf(ofTenant, modifyUser),
    delete: anyOf(ofTenant, allOf(allocateUser, modifyUser)),
  },
  selectableFields: ["metadata.namespace", "spec.enable", "status.realm"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "TENANT", field: "metadata.namespace" },
    { header: "ENABLED", field: "spec.enable", format: "boolean" },
    { header: "GROUPS", field: "spec.groups", format: "list" },
    { header: "EMAIL", field: "spec.email" },
    { header: "COMMENT", field: "spec.comment" },
    { header: "TOKENS", field: "status.tokens", format: "list", wide: true },
  ],
  describe: [
    { title: "Person", fields: ["spec.firstname", "spec.lastname", "spec.email", "spec.comment"] },
    {
      title: "Access",
      fields: ["spec.enable", "spec.expire", "spec.groups", "status.realm", "status.tokens"],
    },
  ],
  applyOrder: 40,
};
