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
    namespace: Type.Optional(
      Type.String({ description: "Its tenant, of a kind whose names are unique in their tenant only." }),
    ),
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

export const HaMaintenanceRequestSchema = Type.Object(
  { enabled: Type.Boolean({ description: "Whether guests under HA are to leave the node." }) },
  closed,
);

export const FailoverRequestSchema = Type.Object(
  {
    target: Type.Optional(Type.String({ description: "The node whose copy is taken; else the newest." })),
    nodeIsOff: Type.Optional(
      Type.Boolean({ description: "You have made sure that the VM's node is off: it cannot run there." }),
    ),
    dropMissing: Type.Optional(Type.Boolean({ description: "Go on without disks that have no copy." })),
    start: Type.Optional(Type.Boolean({ description: "Start it there." })),
  },
  closed,
);

export const FailoverResultSchema = Type.Object({
  vmid: Type.Integer(),
  from: Type.String(),
  to: Type.String(),
  copyOf: Type.String({ description: "When the disks were so." }),
  ageSeconds: Type.Integer(),
  age: Type.String(),
  left: Type.Array(Type.String(), { description: "What stayed behind." }),
  task: Type.Optional(Type.String({ description: "The task that starts it." })),
});

export const VmBackupRequestSchema = Type.Object(
  {
    storage: Type.Optional(Type.String({ description: "Where it goes; default the storage for backups." })),
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

export const ComponentRequestSchema = Type.Object(
  {
    version: Type.Optional(
      Type.String({
        description: "Such as 1.36.4, or debian; default the newest that there is.",
        pattern: "^[0-9A-Za-z][0-9A-Za-z.+-]{0,39}$",
      }),
    ),
    from: Type.Optional(
      Type.Union([Type.Literal("download"), Type.Literal("debian"), Type.Literal("go")], {
        description: "To install: only this way; default each in turn.",
      }),
    ),
    path: Type.Optional(Type.String({ description: "To import: a folder on the node." })),
  },
  closed,
);

export const KubeconfigSchema = Type.Object(
  {
    id: Type.String({ description: "By which it is revoked." }),
    kubeconfig: Type.String({ description: "The file." }),
    expiresAt: Type.String({ format: "date-time" }),
  },
  closed,
);

export const KubeconfigsSchema = Type.Object(
  {
    kubeconfigs: Type.Array(
      Type.Object(
        {
          id: Type.String({ description: "By which it is revoked." }),
          user: Type.String({ description: "Whom it was given to." }),
          expiresAt: Type.Optional(
            Type.String({
              format: "date-time",
              description: "Absent: its binding does not tell it any more.",
            }),
          ),
        },
        closed,
      ),
    ),
  },
  closed,
);

const groupSize = Type.Object(
  {
    count: Type.Integer({ minimum: 0, maximum: 1000, description: "How many workers it shall have." }),
    pool: Type.Optional(Type.String({ description: "In this pool; default those of the cluster itself." })),
  },
  closed,
);

/** As a number of its own, or with the field as the spec has it. */
export const ScaleRequestSchema = Type.Object(
  {
    ...Type.Partial(groupSize).properties,
    workerNodes: Type.Optional({
      ...groupSize,
      description: "The same, in the place of `count` and `pool`.",
    }),
  },
  closed,
);
export type ScaleRequest = Static<typeof ScaleRequestSchema>;

export const SleepRequestSchema = Type.Object(
  { mode: Type.Optional(Type.Enum(["cold", "warm"], { description: "As the parameter of that name." })) },
  closed,
);
export type SleepRequest = Static<typeof SleepRequestSchema>;

export const JoinTokenSchema = Type.Object(
  {
    token: Type.String({ description: "Shown once." }),
    expiresAt: Type.String({ format: "date-time" }),
    caFingerprint: Type.Optional(Type.String()),
    servers: Type.Optional(
      Type.Array(Type.String(), {
        description:
          "URLs of the servers that run and say where they are reached: a node reports to all of them.",
      }),
    ),
  },
  closed,
);

const StoreMemberSchema = Type.Object(
  {
    id: Type.String({ description: "Hex." }),
    name: Type.String({ description: "Its server's; empty until it has started." }),
    role: Type.Union([Type.Literal("voter"), Type.Literal("learner")]),
    leader: Type.Boolean(),
    healthy: Type.Boolean(),
    problem: Type.Optional(Type.String()),
    version: Type.Optional(Type.String()),
    bytes: Type.Optional(Type.Number()),
    clientUrls: Type.Array(Type.String()),
    peerUrls: Type.Array(Type.String()),
  },
  closed,
);
export type StoreMember = Static<typeof StoreMemberSchema>;
export const StoreMembersSchema = Type.Object({ members: Type.Array(StoreMemberSchema) }, closed);

const text = (description: string) => Type.Optional(Type.String({ description }));

export const DefaultsSchema = Type.Object(
  {
    storage: Type.Object(
      {
        vmDisk: Type.String({ description: "Disks of VMs." }),
        iso: Type.String({ description: "Installation discs and images." }),
        backup: Type.String({ description: "Backups." }),
      },
      closed,
    ),
    machine: text("`machine` of the node's new VMs."),
    cpu: text("`cpu` of the node's new VMs."),
    bridge: text("Bridge of the node's VMs."),
  },
  closed,
);

export type Defaults = Static<typeof DefaultsSchema>;
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
export type ComponentRequest = Static<typeof ComponentRequestSchema>;
export type HaMaintenanceRequest = Static<typeof HaMaintenanceRequestSchema>;
export type FailoverRequest = Static<typeof FailoverRequestSchema>;
export type FailoverResult = Static<typeof FailoverResultSchema>;
export type VmBackupRequest = Static<typeof VmBackupRequestSchema>;
