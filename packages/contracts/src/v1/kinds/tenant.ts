import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { allOf, privilege, toChange, toRead } from "../permission.ts";

const read = privilege("/pool/{name}", "Pool.Audit");
/** The answer shows the tenant, so it must be theirs to see. */
const change = allOf(read, privilege("/pool/{name}", "Pool.Allocate"));

export const tenantKind: KindDeclaration = {
  kind: "Tenant",
  plural: "tenants",
  aliases: ["tenant", "pool", "pools"],
  scope: "cluster",
  description: "Who owns guests and clusters. The same object is a pool under /api2.",
  spec: Type.Object(
    { comment: Type.Optional(Type.String({ maxLength: 4096 })) },
    { additionalProperties: false },
  ),
  status: Type.Object({
    guests: Type.Array(Type.Integer({ description: "VMIDs of the members." })),
    storages: Type.Array(Type.String()),
    parent: Type.Optional(Type.String()),
  }),
  namePattern: "^[A-Za-z0-9._-]+(/[A-Za-z0-9._-]+){0,2}$",
  nameWords:
    "letters, digits, dots, dashes and underscores; up to three such words with / between them, as in lab/eu",
  permissions: {
    ...toRead(read),
    ...toChange(change),
    create: privilege("/pool/{name}", "Pool.Allocate"),
  },
  selectableFields: ["status.parent"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "GUESTS", field: "status.guests", format: "list" },
    { header: "STORAGES", field: "status.storages", format: "list" },
    { header: "COMMENT", field: "spec.comment" },
    { header: "AGE", field: "metadata.creationTimestamp", format: "age" },
  ],
  describe: [
    { title: "Tenant", fields: ["spec.comment"] },
    { title: "Members", fields: ["status.guests", "status.storages", "status.parent"] },
  ],
  applyOrder: 30,
};
