// Backup, restore, upgrade, moves and new authorities of virtual clusters in /api/v1. Part of `fixedRoutes`.
import { TaskRefSchema } from "./bodies.ts";
import { virtualClusterKind } from "./kinds/virtual-cluster.ts";
import { authenticated, privilege } from "./permission.ts";
import { ClusterBackupsSchema } from "./vc-answers.ts";
import {
  VcBackupRequestSchema,
  VcMigrateRequestSchema,
  VcRestoreRequestSchema,
  VcRotateRequestSchema,
  VcUpgradeRequestSchema,
} from "./vc-save-bodies.ts";

const tenant = "/pool/{metadata.namespace}";
const on = virtualClusterKind;
const work = { status: 202, schema: TaskRefSchema } as const;
const restore = {
  method: "POST",
  summary:
    "Make a cluster of a backup, or with `over` put it in place of the one that is there, as an operation; needs VC.Backup and VC.Allocate on its tenant, and VC.Backup on the tenant of the backup",
  // The cluster need not be there: the node's own route says who may.
  permission: authenticated,
  audit: "write",
  body: VcRestoreRequestSchema,
  response: work,
} as const;

export const vcSaveRoutes = [
  {
    operationId: "backupVcluster",
    method: "POST",
    path: "/vclusters/{name}/backup",
    summary:
      "Back a cluster up: its store at one revision, its keys, its volumes; also while it sleeps, as an operation; needs Datastore.AllocateSpace on the storage",
    permission: privilege(tenant, "VC.Backup"),
    on,
    audit: "write",
    body: VcBackupRequestSchema,
    response: work,
  },
  {
    operationId: "listVclusterBackups",
    method: "GET",
    path: "/vclusters/{name}/backups",
    summary:
      "The backups of a cluster that its node sees, oldest first; of one that is gone those that any node sees",
    permission: privilege(tenant, "VC.Audit"),
    on,
    outlives: true,
    audit: "none",
    response: { status: 200, schema: ClusterBackupsSchema },
  },
  { operationId: "restoreVcluster", path: "/vclusters/{name}/restore", ...restore },
  { operationId: "restoreTenantVcluster", path: "/tenants/{tenant}/vclusters/{name}/restore", ...restore },
  {
    operationId: "upgradeVcluster",
    method: "POST",
    path: "/vclusters/{name}/upgrade",
    summary:
      "Upgrade a cluster by at most one minor: control plane, then workers; what fails returns to the old version by itself, as an operation",
    permission: privilege(tenant, "VC.Config"),
    on,
    audit: "write",
    body: VcUpgradeRequestSchema,
    response: work,
  },
  {
    operationId: "migrateVcluster",
    method: "POST",
    path: "/vclusters/{name}/migrate",
    summary:
      "Move the control plane of a cluster to another node, with its store and keys, as an operation; its workers stay where they are, and what fails leaves it where it was. With `worker`, move that one instead: it is drained, and begins there with its name and without volumes",
    permission: privilege(tenant, "VC.Config"),
    on,
    audit: "write",
    body: VcMigrateRequestSchema,
    response: work,
  },
  {
    operationId: "rotateVclusterCa",
    method: "POST",
    path: "/vclusters/{name}/rotate-ca",
    summary:
      "Give a cluster a new certificate authority, trusted beside the old one until that is dropped, by `dropOld` or after `graceHours`, as an operation; kubeconfigs of before are good until then",
    permission: privilege(tenant, "VC.Config"),
    on,
    audit: "write",
    body: VcRotateRequestSchema,
    response: work,
  },
] as const;
