// Bodies of backup, restore, upgrade, moves and new authorities of virtual clusters.
import { Type } from "typebox";
import type { Static } from "typebox";

const closed = { additionalProperties: false } as const;

export const VcBackupRequestSchema = Type.Object(
  {
    storage: Type.Optional(Type.String({ description: "Where it goes; default the storage for backups." })),
    notes: Type.Optional(Type.String({ maxLength: 1024 })),
    protected: Type.Optional(Type.Boolean({ default: false })),
  },
  closed,
);
export type VcBackupRequest = Static<typeof VcBackupRequestSchema>;

export const VcRestoreRequestSchema = Type.Object(
  {
    archive: Type.String({
      pattern: "^[^:]+:backup/",
      description: "The volume of the backup: local:backup/vzdump-vc-demo_default-….tar.gz",
    }),
    tenant: Type.Optional(
      Type.String({
        description:
          "Of the new cluster, where the path names none; default that of the only one of the name, else that of the backup.",
      }),
    ),
    over: Type.Optional(
      Type.Boolean({ default: false, description: "In place of the cluster of that name, which is lost." }),
    ),
    workers: Type.Optional(
      Type.Integer({ minimum: 0, maximum: 1000, description: "Other than the backup says." }),
    ),
    node: Type.Optional(
      Type.String({ description: "The node that shall have it; default one that sees it." }),
    ),
  },
  closed,
);
export type VcRestoreRequest = Static<typeof VcRestoreRequestSchema>;

export const VcUpgradeRequestSchema = Type.Object(
  {
    version: Type.Optional(Type.String({ minLength: 1, maxLength: 64, description: "1.36 or 1.36.4" })),
    targetVersion: Type.Optional(
      Type.String({ minLength: 1, maxLength: 64, description: "The same, where `version` is not said." }),
    ),
    drain: Type.Optional(
      Type.Boolean({
        default: false,
        description: "Workers are emptied before they are upgraded; else their pods run on.",
      }),
    ),
  },
  closed,
);
export type VcUpgradeRequest = Static<typeof VcUpgradeRequestSchema>;

export const VcMigrateRequestSchema = Type.Object(
  {
    target: Type.String({
      minLength: 1,
      description: "The node that shall have its control plane, or the worker that is named.",
    }),
    worker: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 63,
        description: "This worker moves, drained, and the control plane stays.",
      }),
    ),
  },
  closed,
);
export type VcMigrateRequest = Static<typeof VcMigrateRequestSchema>;

export const VcRotateRequestSchema = Type.Object(
  {
    graceHours: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 8760,
        default: 168,
        description: "How long the old authority is trusted, and kubeconfigs of before are good.",
      }),
    ),
    dropOld: Type.Optional(
      Type.Boolean({
        default: false,
        description: "Drop the old authority now, instead of making a new one.",
      }),
    ),
  },
  closed,
);
export type VcRotateRequest = Static<typeof VcRotateRequestSchema>;
