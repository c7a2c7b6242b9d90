import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { authenticated, privilege } from "../permission.ts";

export const roleKind: KindDeclaration = {
  kind: "Role",
  plural: "roles",
  aliases: ["role"],
  scope: "cluster",
  description: "A named set of privileges.",
  spec: Type.Object(
    {
      privileges: Type.Array(Type.String({ pattern: "^[A-Za-z]+(\\.[A-Za-z]+)+$" }), {
        uniqueItems: true,
        maxItems: 256,
      }),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    builtin: Type.Boolean({ description: "Shipped with the product; cannot be changed." }),
  }),
  namePattern: "^[A-Za-z0-9._-]+$",
  permissions: {
    list: authenticated,
    get: authenticated,
    watch: authenticated,
    create: privilege("/access", "Sys.Modify"),
    replace: privilege("/access", "Sys.Modify"),
    patch: privilege("/access", "Sys.Modify"),
    delete: privilege("/access", "Sys.Modify"),
  },
  selectableFields: ["status.builtin"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "BUILTIN", field: "status.builtin", format: "boolean" },
    { header: "PRIVILEGES", field: "spec.privileges", format: "list" },
  ],
  describe: [{ title: "Privileges", fields: ["spec.privileges"] }],
  applyOrder: 20,
};
