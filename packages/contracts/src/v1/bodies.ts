// Bodies of /api/v1 that are not objects of a kind.
import { Type } from "typebox";
import type { Static } from "typebox";
import { ProblemSchema } from "./problem.ts";

const closed = { additionalProperties: false } as const;

export const ApplyRequestSchema = Type.Object(
  {
    objects: Type.Array(
      Type.Unsafe<Record<string, unknown>>({ type: "object", additionalProperties: true }),
      {
        minItems: 1,
        maxItems: 1000,
        description: "Objects with apiVersion, kind, metadata and spec.",
      },
    ),
  },
  closed,
);

export const FieldChangeSchema = Type.Object(
  {
    path: Type.String({ description: "spec.comment, metadata.labels.tier, spec.disks[scsi0].size" }),
    op: Type.Enum(["add", "replace", "remove"]),
    before: Type.Optional(Type.Unknown()),
    after: Type.Optional(Type.Unknown()),
  },
  closed,
);

export const PlanItemSchema = Type.Object(
  {
    kind: Type.String(),
    name: Type.String(),
    action: Type.Enum(["create", "update", "unchanged", "refused"]),
    changes: Type.Array(FieldChangeSchema),
    notes: Type.Optional(
      Type.Array(Type.String(), { description: "What it does that the changes do not show." }),
    ),
    problem: Type.Optional(ProblemSchema),
  },
  closed,
);

export const PlanResultSchema = Type.Object(
  {
    items: Type.Array(PlanItemSchema, { description: "In the order in which they would be applied." }),
    applicable: Type.Boolean({
      description: "False when an item is refused: apply would do nothing at all.",
    }),
    resourceVersion: Type.String(),
  },
  closed,
);

export const TaskRefSchema = Type.Object({ task: Type.String({ description: "UPID" }) }, closed);

export const ApplyResultSchema = Type.Object(
  {
    items: Type.Array(PlanItemSchema),
    task: Type.Optional(Type.String({ description: "UPID; absent when nothing had to change." })),
  },
  closed,
);

export const TaskLogSchema = Type.Object(
  {
    lines: Type.Array(Type.Object({ n: Type.Integer(), t: Type.String() }, closed)),
    total: Type.Integer(),
  },
  closed,
);

export const HealthSchema = Type.Object(
  {
    status: Type.Enum(["ok", "failing"]),
    checks: Type.Array(
      Type.Object({ name: Type.String(), ok: Type.Boolean(), detail: Type.Optional(Type.String()) }, closed),
    ),
  },
  closed,
);

export const CoverageSchema = Type.Object(
  {
    implemented: Type.Integer(),
    known: Type.Integer(),
    areas: Type.Array(
      Type.Object({ area: Type.String(), implemented: Type.Integer(), known: Type.Integer() }, closed),
    ),
    routes: Type.Array(
      Type.Object(
        { method: Type.String(), path: Type.String(), area: Type.String(), implemented: Type.Boolean() },
        closed,
      ),
    ),
  },
  closed,
);

const ColumnSchema = Type.Object(
  {
    header: Type.String(),
    field: Type.String(),
    format: Type.Optional(Type.String()),
    wide: Type.Optional(Type.Boolean()),
  },
  closed,
);

export const KindInfoSchema = Type.Object(
  {
    kind: Type.String(),
    plural: Type.String(),
    aliases: Type.Array(Type.String()),
    scope: Type.String(),
    description: Type.String(),
    verbs: Type.Array(Type.String()),
    selectableFields: Type.Array(Type.String()),
    columns: Type.Array(ColumnSchema),
    describe: Type.Array(Type.Object({ title: Type.String(), fields: Type.Array(Type.String()) }, closed)),
    appliable: Type.Boolean(),
  },
  closed,
);

export const DiscoverySchema = Type.Object(
  {
    apiVersion: Type.String(),
    version: Type.String({ description: "Of the server." }),
    kinds: Type.Array(KindInfoSchema),
    extensions: Type.Array(Type.Object({ name: Type.String(), description: Type.String() }, closed)),
  },
  closed,
);

export const AuditPageSchema = Type.Object({
  entries: Type.Array(Type.Unsafe<Record<string, unknown>>({ type: "object", additionalProperties: true })),
});

export const AuditVerdictSchema = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  required: ["ok"],
  properties: { ok: { type: "boolean" } },
  additionalProperties: true,
});

export const JoinTokenRequestSchema = Type.Object(
  {
    node: Type.Optional(Type.String({ description: "Only a node of this name may use it." })),
    ttlSeconds: Type.Optional(Type.Integer({ minimum: 60, maximum: 604_800, default: 3600 })),
  },
  closed,
);

export const VmBackupRequestSchema = Type.Object(
  {
    storage: Type.Optional(Type.String({ description: "Where it goes.", default: "local" })),
    mode: Type.Optional(
      Type.Union([Type.Literal("snapshot"), Type.Literal("suspend"), Type.Literal("stop")], {
        default: "snapshot",
      }),
    ),
    compress: Type.Optional(
      Type.Union([Type.Literal("none"), Type.Literal("zstd"), Type.Literal("gzip"), Type.Literal("lzo")], {
        description: "Of full archives; incremental ones are always packed with zstd.",
        default: "zstd",
      }),
    ),
    notes: Type.Optional(
      Type.String({ description: "With {{guestname}}, {{node}}, {{vmid}}, {{cluster}}." }),
    ),
    protected: Type.Optional(Type.Boolean({ default: false })),
    incremental: Type.Optional(
      Type.Boolean({
        description: "Only what changed since the last backup there, where that is known.",
        default: true,
      }),
    ),
  },
  closed,
);

export const JoinTokenSchema = Type.Object(
  {
    token: Type.String({ description: "Shown once." }),
    expiresAt: Type.String({ format: "date-time" }),
    caFingerprint: Type.Optional(Type.String()),
  },
  closed,
);

export type ApplyRequest = Static<typeof ApplyRequestSchema>;
export type FieldChange = Static<typeof FieldChangeSchema>;
export type PlanItem = Static<typeof PlanItemSchema>;
export type PlanResult = Static<typeof PlanResultSchema>;
export type ApplyResult = Static<typeof ApplyResultSchema>;
export type TaskLog = Static<typeof TaskLogSchema>;
export type Health = Static<typeof HealthSchema>;
export type Coverage = Static<typeof CoverageSchema>;
export type KindInfo = Static<typeof KindInfoSchema>;
export type Discovery = Static<typeof DiscoverySchema>;
export type JoinTokenRequest = Static<typeof JoinTokenRequestSchema>;
export type VmBackupRequest = Static<typeof VmBackupRequestSchema>;
