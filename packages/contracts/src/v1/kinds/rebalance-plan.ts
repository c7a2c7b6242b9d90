import { Type } from "typebox";
import type { KindDeclaration } from "../kind.ts";
import { allOf, privilege, toChange, toRead } from "../permission.ts";

const closed = { additionalProperties: false } as const;
const read = privilege("/nodes", "Sys.Audit");
// Approving one moves guests of anybody, as PVE's migrateall does.
const change = allOf(read, privilege("/nodes", "Sys.Modify"), privilege("/vms", "VM.Migrate"));

const violation = Type.Object({
  rule: Type.String(),
  guest: Type.String(),
  node: Type.String(),
  why: Type.String(),
});

export const rebalancePlanKind: KindDeclaration = {
  kind: "RebalancePlan",
  plural: "rebalanceplans",
  aliases: ["rebalanceplan", "rebalance"],
  scope: "cluster",
  description:
    "Moves of guests that put rules right, and even nodes out where that is asked for. Worked out when it is made, carried out when it is approved.",
  spec: Type.Object(
    {
      approved: Type.Optional(
        Type.Boolean({ description: "true: its moves are made, one after the other." }),
      ),
      balance: Type.Optional(
        Type.Boolean({ description: "Also even nodes out, where they differ by more than the threshold." }),
      ),
      maxMoves: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, description: "Default 5." })),
      threshold: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: 100,
          description: "Percent between the fullest node and the emptiest; default 30.",
        }),
      ),
    },
    closed,
  ),
  status: Type.Object({
    phase: Type.Enum(["Proposed", "Running", "Done", "Failed"]),
    message: Type.Optional(Type.String()),
    violations: Type.Array(violation, { description: "Rules that did not hold when it was made." }),
    moves: Type.Array(
      Type.Object({
        guest: Type.String(),
        from: Type.String(),
        to: Type.String(),
        rule: Type.String({ description: "The rule that it puts right, or Balance." }),
        why: Type.String(),
        state: Type.Enum(["pending", "moving", "done", "failed", "skipped"]),
        task: Type.Optional(Type.String({ description: "UPID" })),
        message: Type.Optional(Type.String()),
      }),
    ),
    unsolved: Type.Array(violation, { description: "Violations that no move puts right." }),
    imbalance: Type.Object({ before: Type.Number(), after: Type.Number() }),
    moveCount: Type.Integer(),
    madeBy: Type.String(),
  }),
  namePattern: "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$",
  forcedDelete:
    "1 = also while it is carried out: the move that has begun goes on, those after it are not made.",
  permissions: { ...toRead(read), ...toChange(change) },
  selectableFields: ["status.phase"],
  columns: [
    { header: "NAME", field: "metadata.name" },
    { header: "PHASE", field: "status.phase" },
    { header: "MOVES", field: "status.moveCount" },
    { header: "BEFORE %", field: "status.imbalance.before" },
    { header: "AFTER %", field: "status.imbalance.after" },
    { header: "BY", field: "status.madeBy" },
    { header: "AGE", field: "metadata.creationTimestamp", format: "age" },
  ],
  describe: [
    { title: "Plan", fields: ["status.phase", "status.message", "spec.approved", "status.imbalance"] },
    { title: "Violations", fields: ["status.violations"] },
    { title: "Moves", fields: ["status.moves"] },
    { title: "Unsolved", fields: ["status.unsolved"] },
  ],
};
