import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { anyOf, owner, privilege, toRead } from "../permission.ts";

const readTask = anyOf(owner("spec.user"), privilege("/nodes/{spec.node}", "Sys.Audit"));

export const taskKind: KindDeclaration = {
  kind: "Task",
  plural: "tasks",
  aliases: ["task", "operation", "operations"],
  scope: "node",
  description: "Work that takes longer than about a second. Its name is the UPID.",
  spec: Type.Object(
    {
      node: Type.String(),
      type: Type.String({ description: "qmstart, vzdump, applyobjects, ..." }),
      id: Type.String({ description: "What it works on; may be empty." }),
      user: Type.String(),
    },
    { additionalProperties: false },
  ),
  status: Type.Object({
    phase: Type.Enum(["queued", "running", "succeeded", "warnings", "failed", "cancelled"]),
    exitStatus: Type.Optional(Type.String({ description: "OK, WARNINGS: n, or the error." })),
    startedAt: Type.String({ format: "date-time" }),
    endedAt: Type.Optional(Type.String({ format: "date-time" })),
    progress: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })),
    step: Type.Optional(Type.String()),
  }),
  namePattern: "^UPID:[^/\\s]+$",
  permissions: toRead(readTask),
  selectableFields: ["spec.node", "spec.type", "spec.id", "spec.user", "status.phase"],
  columns: [
    { header: "NODE", field: "spec.node" },
    { header: "TYPE", field: "spec.type" },
    { header: "ID", field: "spec.id" },
    { header: "USER", field: "spec.user" },
    { header: "PHASE", field: "status.phase" },
    { header: "STARTED", field: "status.startedAt", format: "age" },
    { header: "EXIT", field: "status.exitStatus" },
    { header: "NAME", field: "metadata.name", wide: true },
  ],
  describe: [
    { title: "Work", fields: ["spec.node", "spec.type", "spec.id", "spec.user"] },
    {
      title: "Outcome",
      fields: [
        "status.phase",
        "status.exitStatus",
        "status.startedAt",
        "status.endedAt",
        "status.progress",
        "status.step",
      ],
    },
  ],
};
