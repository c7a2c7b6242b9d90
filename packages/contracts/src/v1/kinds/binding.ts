import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { toChange, toRead, type V1Permission } from "../permission.ts";

const modifyAcl: V1Permission = { allow: "acl-modify", path: "{spec.path}" };
const readAcl: V1Permission = { allow: "acl-audit", path: "{spec.path}" };

export const bindingKind: KindDeclaration = {
  kind: "Binding",
  plural: "bindings",
  aliases: ["binding", "acl"],
  scope: "cluster",
  description: "Who has a role on a path: all ACL entries of one role on one path.",
  spec: Type.Object(
    {
      path: Type.String({ pattern: "^/", maxLength: 512, description: "ACL path, /vms/100." }),
      role: Type.String({ pattern: "^[A-Za-z0-9._-]+$" }),
      subjects: Type.Array(
        Type.Object(
          {
            kind: Type.Enum(["User", "Group", "Token"]),
            name: Type.String({ minLength: 1, maxLength: 256 }),
            propagate: Type.Optional(
              Type.Boolean({ default: true, description: "Also counts on paths below." }),
            ),
          },
          { additionalProperties: false },
        ),
        { minItems: 1, maxItems: 10_000 },
      ),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({}),
  namePattern: "^[A-Za-z0-9._-]+@/.*$",
  nameTemplate: "{spec.role}@{spec.path}",
  permissions: { ...toRead(readAcl), ...toChange(modifyAcl) },
  selectableFields: ["spec.path", "spec.role"],
  columns: [
    { header: "PATH", field: "spec.path" },
    { header: "ROLE", field: "spec.role" },
    { header: "SUBJECTS", field: "spec.subjects", format: "list" },
    { header: "NAME", field: "metadata.name", wide: true },
  ],
  describe: [{ title: "Grant", fields: ["spec.role", "spec.path", "spec.subjects"] }],
  applyOrder: 50,
};
