// The node's part of backup, restore and upgrade of virtual clusters.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { ClusterSaves } from "@gpve/domain/vcluster/backup/cluster-saves.ts";
import { requireSaveable } from "@gpve/domain/vcluster/backup/saveable-cluster.ts";
import { requireFreeNetworks } from "@gpve/domain/vcluster/free-networks.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { requireUpgradePath } from "@gpve/domain/vcluster/upgrade-path.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { totalWorkers, wantedVnodes } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { OwnHandlers } from "../agent.ts";
import { clusterWork, ownCluster } from "./asked-cluster.ts";
import type { ArchivePlaces } from "./backup/archive-places.ts";
import { BACKUP_CLUSTER, type ClusterBackupArgs } from "./backup/backup-operation.ts";
import { RESTORE_OVER_CLUSTER, type RestoreOverArgs } from "./backup/restore-over-operation.ts";
import { type NewClusterArgs, RESTORE_CLUSTER } from "./cluster-operations.ts";
import { type ClusterRouteDeps, kubernetesVersion, requireGuard } from "./cluster-routes.ts";
import { UPGRADE_CLUSTER, type UpgradeArgs } from "./upgrade/upgrade-operation.ts";

type SaveRoute =
  | `POST /gpve/nodes/{node}/vclusters/{vcluster}/${"backup" | "restore" | "upgrade"}`
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/backups"
  | "GET /gpve/nodes/{node}/vclusters/{vcluster}/upgrade-path"
  | "GET /gpve/nodes/{node}/vcluster-archive";

export interface SaveRouteDeps extends Pick<
  ClusterRouteDeps,
  | "host"
  | "engine"
  | "components"
  | "catalogue"
  | "awake"
  | "volumeStorage"
  | "hostNetworks"
  | "requireKata"
  | "requireIssuer"
  | "devices"
  | "vnodes"
> {
  readonly places: Pick<ArchivePlaces, "open" | "file" | "list">;
  readonly saves: Pick<ClusterSaves, "manifest">;
}

type WorkArgs = ClusterBackupArgs | NewClusterArgs | RestoreOverArgs | UpgradeArgs;

export function saveRoutes(deps: SaveRouteDeps): OwnHandlers<SaveRoute> {
  const { host, engine, places, saves } = deps;
  const submit = clusterWork<WorkArgs>(engine);
  /** Of an archive whose tenant was judged by its name. */
  const manifestOf = async (archive: string, tenant: string) => {
    const manifest = await saves.manifest(await places.file(archive));
    if (manifest.tenant === tenant) return manifest;
    throw new AppError("access.denied", `${archive} is not what its name says: it is of another tenant`);
  };
  const upgradePath = (cluster: KeptCluster, wanted: string): { from: string; to: string } => {
    const { name, phase, version: from } = cluster;
    requireSaveable("upgrade", cluster);
    const to = kubernetesVersion(deps, wanted);
    requireUpgradePath(name, from, to);
    if (phase !== "Running")
      throw new AppError(
        "object.conflict",
        `virtual cluster '${name}' is ${phase}: it can be upgraded while it is Running`,
      );
    return { from, to };
  };
  return {
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup": async (asked, ctx) => {
      const { vcluster, tenant, storage, requestId, notes, protected: isProtected, prune } = asked;
      const { volumesFrom } = asked;
      const cluster = ownCluster(host, { vcluster, tenant });
      const { name } = cluster;
      // Refused before a task begins.
      requireSaveable("backup", cluster);
      await places.open(storage);
      // One that sleeps has none that could be read.
      if (cluster.spec.backingStore === "etcd") await deps.awake(name);
      const args = { name, storage, ...given({ notes, protected: isProtected, prune, volumesFrom }) };
      return submit(BACKUP_CLUSTER, args, requestId, ctx);
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/backups": async ({
      vcluster,
      called = vcluster,
      tenant,
    }) => {
      const rows = await places.list({ name: called, tenant });
      return rows.map(({ file: _file, volid, ...row }) => ({ archive: volid, ...row }));
    },
    "GET /gpve/nodes/{node}/vcluster-archive": async ({ archive, tenant }) => {
      const { name, spec, kubernetesVersion: version, createdAt } = await manifestOf(archive, tenant);
      return { name, tenant, spec: { ...spec }, kubernetesVersion: version, createdAt };
    },
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/restore": async (asked, ctx) => {
      const { vcluster: name, called, tenant, archive, source, requestId, over } = asked;
      const before = host.get(name);
      const kept = over ? ownCluster(host, { vcluster: name, tenant }) : undefined;
      if (kept !== undefined) requireSaveable("restore", kept);
      const manifest = await manifestOf(archive, source);
      const spec = readVirtualClusterSpec(asked.spec);
      requireSaveable("restore", { name, spec });
      if (spec.volumeStorage !== undefined) await deps.volumeStorage(spec.volumeStorage);
      await deps.devices.require(name, wantedVnodes(spec, deps.vnodes.list(name)));
      if (kept !== undefined && kept.spec.backingStore !== spec.backingStore)
        throw new AppError(
          "object.conflict",
          `virtual cluster '${name}' has a store of kind ${kept.spec.backingStore}, and keeps it: what takes its place cannot have ${spec.backingStore}`,
        );
      const version = versionOf(deps, manifest.kubernetesVersion);
      // As of a new one: the node that the one before was on may have been another, or have changed since.
      requireFreeNetworks(spec, deps.hostNetworks());
      if (totalWorkers(spec) > 0) requireGuard(version);
      if (spec.isolationLevel === "L2") await deps.requireKata();
      if (spec.oidc !== undefined) await deps.requireIssuer(spec.oidc, version);
      // Under its own name it is itself again; under another it is somebody else.
      const goal = calledOf(kept ?? { name, ...given({ called }) });
      const isItself = manifest.name === goal && manifest.tenant === tenant;
      const identity = isItself ? "whole" : "fresh";
      if (kept !== undefined)
        return submit(RESTORE_OVER_CLUSTER, { name, archive, identity, spec, version }, requestId, ctx);
      if (before !== undefined && before.fill?.archive !== archive)
        throw new AppError("object.exists", `this node has a virtual cluster '${name}' already`);
      const fill = { archive, identity } as const;
      return submit(
        RESTORE_CLUSTER,
        { name, tenant, spec, version, fill, ...given({ called }) },
        requestId,
        ctx,
      );
    },
    "GET /gpve/nodes/{node}/vclusters/{vcluster}/upgrade-path": (asked) =>
      upgradePath(ownCluster(host, asked), asked.version),
    "POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade": async (asked, ctx) => {
      const { requestId, drain, part } = asked;
      const cluster = ownCluster(host, asked);
      const { name } = cluster;
      if (part === undefined) {
        requireWholeHere(cluster);
        const { to: version } = upgradePath(cluster, asked.version);
        await deps.awake(name);
        return submit(UPGRADE_CLUSTER, { name, version, drain }, requestId, ctx);
      }
      // The way back too: which versions follow each other the server has asked before.
      if (!isBranch(cluster)) await deps.awake(name);
      return submit(UPGRADE_CLUSTER, { name, version: asked.version, drain, part }, requestId, ctx);
    },
  };
}

/** Who takes it for one on one node would leave the others behind. */
function requireWholeHere({ name, overlay }: KeptCluster): void {
  if (overlay === undefined) return;
  throw new AppError(
    "object.conflict",
    `virtual cluster '${name}' is on several nodes: a server upgrades it, node after node`,
  );
}

/** The one that it was, else the newest of its minor: what wrote a store can be followed, not preceded. */
function versionOf(deps: SaveRouteDeps, version: string): string {
  try {
    return kubernetesVersion(deps, version);
  } catch (err) {
    if (!isAppError(err, "request.invalid")) throw err;
    const [major = "", minor = ""] = version.split(".");
    return kubernetesVersion(deps, `${major}.${minor}`);
  }
}
