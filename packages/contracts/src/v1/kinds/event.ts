import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { anyOf, privilege, toRead } from "../permission.ts";

const readEvent = anyOf(
  // What happens to the VMs of a tenant is for whoever may see those.
  { allow: "tenant", privileges: ["VM.Audit"] },
  privilege("/", "Sys.Audit"),
  privilege("/nodes/{spec.node}", "Sys.Audit"),
);

export const eventKind: KindDeclaration = {
  kind: "Event",
  plural: "events",
  aliases: ["event", "ev"],
  scope: "cluster",
  namespaced: true,
  description: "Something that happened lately. Old events are dropped.",
  spec: Type.Object(
    {
      type: Type.Enum(["Normal", "Warning"]),
      reason: Type.String({ description: "One word in CamelCase that programs can match." }),
      message: Type.String(),
      object: Type.Object(
        {
          kind: Type.String(),
          name: Type.String(),
          namespace: Type.Optional(Type.String({ description: "The tenant, of what is in one." })),
        },
        { additionalProperties: false },
      ),
      node: Type.Optional(Type.String({ description: "The node it happened on, where there is one." })),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    count: Type.Integer({ minimum: 1 }),
    firstAt: Type.String({ format: "date-time" }),
    lastAt: Type.String({ format: "date-time" }),
  }),
  namePattern: "^[0-9A-HJKMNP-TV-Z]{26}$",
  permissions: toRead(readEvent),
  selectableFields: [
    "metadata.namespace",
    "spec.type",
    "spec.reason",
    "spec.object.kind",
    "spec.object.name",
    "spec.node",
  ],
  columns: [
    { header: "LAST", field: "status.lastAt", format: "age" },
    { header: "TYPE", field: "spec.type" },
    { header: "REASON", field: "spec.reason" },
    { header: "KIND", field: "spec.object.kind" },
    { header: "OBJECT", field: "spec.object.name" },
    { header: "COUNT", field: "status.count" },
    { header: "MESSAGE", field: "spec.message" },
  ],
  describe: [
    { title: "What", fields: ["spec.type", "spec.reason", "spec.message", "spec.object", "spec.node"] },
    { title: "Seen", fields: ["status.count", "status.firstAt", "status.lastAt"] },
  ],
};
