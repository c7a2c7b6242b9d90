// Backup, restore and upgrade of virtual clusters, as servers and agents say it.
import { Type, type Static } from "typebox";
import { request, requestId, tenant } from "./message-parts.ts";
import { vclusterCalled as called, vclusterKey as vcluster } from "./vcluster-names.ts";

const archive = Type.String({ pattern: "^[^:]+:backup/", description: "Its volume." });

export const VclusterBackupRequest = request({
  vcluster,
  tenant,
  storage: Type.String(),
  notes: Type.Optional(Type.String()),
  protected: Type.Optional(Type.Boolean()),
  prune: Type.Optional(Type.String({ description: "What is kept, instead of what the storage says." })),
  /** Of one on several nodes: the others, each with the note by which it gives its volumes. */
  volumesFrom: Type.Optional(
    Type.Array(Type.Object({ node: Type.String(), moveId: Type.String() }, { additionalProperties: false })),
  ),
  requestId,
});
/** Of a cluster that may be gone. */
export const VclusterBackupsRequest = request({ vcluster, called, tenant });
export const VclusterBackupsAnswer = Type.Array(
  Type.Object({
    archive: Type.String(),
    sizeBytes: Type.Number(),
    time: Type.Number({ description: "Seconds since 1970." }),
    notes: Type.Optional(Type.String()),
    protected: Type.Optional(Type.Boolean()),
  }),
);
export type VclusterBackupRow = Static<typeof VclusterBackupsAnswer>[number];

/** The tenant is the one that it was made in. */
export const VclusterArchiveRequest = request({ archive, tenant });
export const VclusterArchiveAnswer = Type.Object({
  name: Type.String(),
  tenant: Type.String(),
  spec: Type.Record(Type.String(), Type.Unknown()),
  kubernetesVersion: Type.String(),
  createdAt: Type.String(),
});

export const VclusterRestoreRequest = request({
  vcluster,
  called,
  tenant,
  archive,
  /** The tenant that it was made in. */
  source: Type.String(),
  spec: Type.Record(Type.String(), Type.Unknown()),
  /** In place of the cluster that is there. */
  over: Type.Boolean(),
  requestId,
});

export const VclusterUpgradeRequest = request({
  vcluster,
  tenant,
  version: Type.String(),
  drain: Type.Boolean(),
  /** Of a cluster on several nodes a server leads: one part of this node's, and the version that it had, in full. */
  part: Type.Optional(
    Type.Object(
      {
        only: Type.Union([Type.Literal("control plane"), Type.Literal("workers")]),
        from: Type.String(),
      },
      { additionalProperties: false },
    ),
  ),
  requestId,
});
/** Refused with the reason where no way leads there. */
export const VclusterUpgradePathRequest = request({ vcluster, tenant, version: Type.String() });
export const VclusterUpgradePathAnswer = Type.Object({ from: Type.String(), to: Type.String() });

export const VclusterRotateRequest = request({
  vcluster,
  tenant,
  graceHours: Type.Optional(Type.Integer({ minimum: 1, maximum: 8760 })),
  /** End the trust in the one before, instead of making a new one. */
  dropOld: Type.Optional(Type.Boolean()),
  /** Of a cluster on several nodes a server leads: what this node does now. */
  part: Type.Optional(
    Type.Union([
      Type.Literal("begin"),
      Type.Literal("control plane"),
      Type.Literal("workers"),
      Type.Literal("pods"),
      Type.Literal("settle"),
      Type.Literal("turn"),
      Type.Literal("forget"),
      Type.Literal("leavings"),
    ]),
  ),
  requestId,
});
/** What signs for the cluster from now on, and what is trusted beside it. */
export const VclusterTakeAuthorityRequest = request({
  vcluster,
  tenant,
  secrets: Type.Record(Type.String(), Type.String()),
});
export const VclusterRotationRequest = request({ vcluster, tenant });
/** Without a time: it has one authority alone. */
export const VclusterRotationAnswer = Type.Object({
  until: Type.Optional(Type.Number()),
  isWhole: Type.Optional(Type.Boolean()),
});

export const VclusterLogRequest = request({
  vcluster,
  tenant,
  /** What was asked of its API server, instead of what its parts printed. */
  audit: Type.Optional(Type.Boolean()),
});
