import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { authenticated, privilege, toChange, toRead } from "../permission.ts";

const texts = (description: string, options: object = {}) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 128 }), { maxItems: 256, description, ...options });
const rule = {
  apiGroups: Type.Optional(texts("gpve.io, or *.")),
  resources: texts("virtualmachines, virtualmachines/console, virtualclusters, tenants, …", { minItems: 1 }),
  verbs: texts("get, list, watch, create, update, patch, delete, or *.", { minItems: 1 }),
};

export const roleKind: KindDeclaration = {
  kind: "Role",
  plural: "roles",
  aliases: ["role"],
  scope: "cluster",
  description:
    "A named set of privileges. Rules are a second notation for the same privileges: docs/reference/roles.md.",
  spec: Type.Object(
    {
      privileges: Type.Optional(
        Type.Array(Type.String({ pattern: "^[A-Za-z]+(\\.[A-Za-z]+)+$" }), {
          uniqueItems: true,
          maxItems: 256,
        }),
      ),
      rules: Type.Optional(
        Type.Array(
          Type.Object(
            {
              ...rule,
              resourceNames: Type.Optional(
                texts("Refused unless empty: bind the role on the path of the object instead."),
              ),
            },
            { additionalProperties: false },
          ),
          {
            maxItems: 256,
            description: "In place of privileges; kept as privileges and shown as rules in status.rules.",
          },
        ),
      ),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    builtin: Type.Boolean({ description: "Shipped with the product; cannot be changed." }),
    rules: Type.Array(Type.Object(rule), { description: "The privileges, as rules." }),
  }),
  namePattern: "^[A-Za-z0-9._-]+$",
  nameWords: "letters, digits, dots, dashes and underscores",
  permissions: { ...toRead(authenticated), ...toChange(privilege("/access", "Sys.Modify")) },
  selectableFields: ["status.builtin"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "BUILTIN", field: "status.builtin", format: "boolean" },
    { header: "PRIVILEGES", field: "spec.privileges", format: "list" },
  ],
  describe: [
    { title: "Privileges", fields: ["spec.privileges"] },
    { title: "Rules", fields: ["status.rules"] },
  ],
  applyOrder: 20,
};
