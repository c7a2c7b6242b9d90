// Backup, restore and upgrade of virtual clusters at the servers: who has the archive, whether there is room, what the node
// is told.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { VclusterBackupRow } from "@gpve/contracts/agent/vcluster-save-messages.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type {
  VcBackupRequest,
  VcRestoreRequest,
  VcRotateRequest,
} from "@gpve/contracts/v1/vc-save-bodies.ts";
import type { StorageDefaults } from "@gpve/domain/cluster/storage-defaults.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext, RequestLogger } from "@gpve/domain/request/context.ts";
import { parseClusterArchiveName } from "@gpve/domain/vcluster/backup/archive-name.ts";
import { restoredSpec } from "@gpve/domain/vcluster/backup/saveable-cluster.ts";
import type { ClusterIdentity } from "@gpve/domain/vcluster/cluster-key.ts";
import { followed } from "@gpve/domain/vcluster/backup/followed-task.ts";
import { overlayOn } from "@gpve/domain/vcluster/overlay.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { readVirtualClusterSpec, type VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { totalSize } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { isRefusal } from "../node/is-refusal.ts";
import type { QuotaView } from "../quota/quota-view.ts";
import { cacheReader } from "../v1/adapter.ts";
import { boundedVolumes } from "./volumes/bounded-volumes.ts";
import { clusterKeyOf, onlyOne } from "./cluster-names.ts";
import { requireRoom } from "./cluster-room.ts";
import type { ClusterRotations } from "./cluster-rotations.ts";
import type { ClusterUpgrades } from "./cluster-upgrades.ts";
import { awaitFollowed, followTask, settledRecord } from "./follow-task.ts";
import { listBackups, listLeftBackups, storagesAway, tenantsWithBackups } from "./list-backups.ts";
import { noteVolumes } from "./volumes/note-volumes.ts";
import { requireNode, requireRoomOn } from "./placing/named-node.ts";
import { answeringNode } from "./replicas/replica-nodes.ts";
import { requireTarget, type RestoreTarget } from "./restore-target.ts";
import type { StandDown } from "./standby/stand-down.ts";
import type { VirtualClusters } from "./virtual-clusters.ts";
import { volumeBytesOf } from "./volumes/volume-bytes.ts";
import { requireVolumeStorage, volumesElsewhere } from "./volumes/volume-storage.ts";
import { requireMayBeRoot, requireWaysOut } from "./ways-out.ts";

export interface ClusterSavesDeps {
  readonly records: Records;
  readonly clock: Clock;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly quotas: Pick<QuotaView, "quotasOn" | "usage">;
  readonly vclusters: Pick<VirtualClusters, "create" | "require">;
  /** Of those on several nodes. */
  readonly upgrades: Pick<ClusterUpgrades, "begin">;
  readonly rotations: Pick<ClusterRotations, "begin">;
  readonly storages: () => Required<Pick<StorageDefaults, "backup">>;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
  readonly standDown: StandDown;
  readonly log: RequestLogger;
  readonly shutdown: AbortSignal;
}

export class ClusterSaves {
  readonly #deps: ClusterSavesDeps;

  constructor(deps: ClusterSavesDeps) {
    this.#deps = deps;
  }

  /** Answers with the UPID. */
  async backUp(
    key: string,
    { storage = this.#deps.storages().backup, notes, protected: kept }: VcBackupRequest,
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const { board, vclusters } = this.#deps;
    const record = vclusters.require(key);
    const { tenant } = record;
    const node = answeringNode(board, record);
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/backup" as const;
    const params = {
      vcluster: key,
      tenant,
      storage,
      requestId,
      ...given({ notes, protected: kept }),
      ...(await noteVolumes(this.#deps, record, node, requestId)),
    };
    return (await this.#deps.calls.call(node, route, params, ctx)).data;
  }

  /** Also of one that is gone. */
  list(wanted: ClusterIdentity, ctx: RequestContext): Promise<readonly VclusterBackupRow[]> {
    const record = this.#named(wanted);
    return record === undefined
      ? listLeftBackups(this.#deps, wanted, ctx)
      : listBackups(this.#deps, record, ctx);
  }

  /** Storages whose backups of it are not among those now. */
  away(wanted: ClusterIdentity): readonly string[] {
    return storagesAway(this.#deps, this.#named(wanted));
  }

  /** Tenants of whose cluster of that name there are backups. */
  tenantsOf(name: string): readonly string[] {
    return tenantsWithBackups(this.#deps, name);
  }

  /** As a new cluster, or in place of one; answers with the UPID. */
  async restore(
    target: RestoreTarget,
    asked: VcRestoreRequest,
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const { vclusters } = this.#deps;
    const { name, tenant } = target;
    const source = sourceOf(asked.archive);
    const owner = tenant ?? asked.tenant ?? this.#ownerOf(name, ctx) ?? source.tenant;
    // The node judges it too, but by then the record is written.
    ctx.access.require(`/pool/${owner}`, ["VC.Backup", "VC.Allocate"]);
    ctx.access.require(`/pool/${source.tenant}`, ["VC.Backup"]);
    requireTarget(target, asked.tenant);
    const before = this.#named({ name, tenant: owner });
    if (before !== undefined && asked.over !== true)
      throw new AppError(
        "object.exists",
        `VirtualCluster '${name}' already exists in tenant '${owner}': restore it under another name, or say that the backup shall take its place (\`over\`, gpvectl: --over)`,
      );
    const { node, spec: saved } = await this.#find(asked, source, before, ctx);
    const kept = volumesElsewhere(this.#deps.records, saved);
    const spec = restoredSpec(withWorkers(kept, asked.workers), before?.spec);
    if (before !== undefined)
      return this.#over(before, { archive: asked.archive, source: source.tenant, spec }, ctx, requestId);
    const from = {
      archive: asked.archive,
      source: source.tenant,
      node,
      isNamed: asked.node !== undefined,
      seenBy: async (nodes: readonly string[]) =>
        (await this.#seen(asked.archive, source.tenant, nodes, ctx)).found?.node,
    };
    return vclusters.create({ name, namespace: owner, spec, from }, { ...ctx, requestId });
  }

  /** Answers with the UPID. What its spec says follows when it is so. */
  async upgrade(
    key: string,
    { version, drain }: { readonly version: string; readonly drain: boolean },
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const { calls, vclusters, upgrades } = this.#deps;
    const record = vclusters.require(key);
    const { node, tenant } = record;
    if (record.spread !== undefined) return upgrades.begin(record, { version, drain }, ctx, requestId);
    // What is refused takes no standby away.
    const path = "GET /gpve/nodes/{node}/vclusters/{vcluster}/upgrade-path" as const;
    await calls.call(node, path, { vcluster: key, tenant, version }, ctx);
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade" as const;
    const params = { vcluster: key, tenant, version, drain, requestId };
    return this.#followed(
      record,
      { ...ctx, requestId },
      {
        note: (_tx, now, at) => ({ ...now, follows: { at, kubernetesVersion: version } }),
        ask: async (asking) => (await calls.call(node, route, params, asking)).data,
      },
    );
  }

  /** A new certificate authority, or the end of the trust in the one before; answers with the UPID. */
  async rotateCa(
    key: string,
    { graceHours, dropOld }: VcRotateRequest,
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const { calls, vclusters, rotations } = this.#deps;
    const record = vclusters.require(key);
    const { node, tenant } = record;
    if (overlayOn(record.spread, node) !== undefined)
      return rotations.begin(record, { ...given({ graceHours, dropOld }) }, ctx, requestId);
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca" as const;
    const params = { vcluster: key, tenant, requestId, ...given({ graceHours, dropOld }) };
    return (await calls.call(node, route, params, ctx)).data;
  }

  #named(wanted: ClusterIdentity): VirtualClusterRecord | undefined {
    const { records } = this.#deps;
    const key = clusterKeyOf(cacheReader(records), wanted);
    return key === undefined ? undefined : records.collection(vclusterCollection).get(key)?.value;
  }

  /** Who says none means the one of that name that he may put a backup into; undefined = there is none. */
  #ownerOf(name: string, { access }: RequestContext): string | undefined {
    const all = this.#deps.records.collection(vclusterCollection).list();
    const found = all
      .map(({ value }) => value)
      .filter(
        (each) => each.name === name && access.has(`/pool/${each.tenant}`, ["VC.Backup", "VC.Allocate"]),
      );
    return onlyOne(name, found)?.tenant;
  }

  /** The room that it takes more than the one before is taken first. */
  async #over(
    before: VirtualClusterRecord,
    {
      archive,
      source,
      spec: saved,
    }: { readonly archive: string; readonly source: string; readonly spec: Fields },
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const { calls, quotas, board } = this.#deps;
    const { name, tenant, node } = before;
    // What was allowed when the backup was made may not be now. Room that servers gave is no bound of its owner's.
    const isGivenRoom = before.spec.volumeBytes === undefined && before.volumeRoom !== undefined;
    const { storage: _room, ...bounds } = (saved["quota"] ?? {}) as Fields;
    const spec = isGivenRoom ? { ...saved, quota: bounds } : boundedVolumes(quotas, tenant, saved);
    requireVolumeStorage(this.#deps.records, readVirtualClusterSpec(spec), ctx);
    requireMayBeRoot(readVirtualClusterSpec(spec), ctx);
    for (const each of nodesOf(before)) requireWaysOut(each, readVirtualClusterSpec(spec), ctx);
    const after: VirtualClusterSpec = { ...readVirtualClusterSpec(spec), node: before.spec.node };
    const view = requireNode(this.#deps, { ...after, node });
    // What is lost gives its room back: a node that is short of memory is no reason to keep it as it is.
    if (totalSize(after).memoryBytes > totalSize(before.spec).memoryBytes) requireRoomOn(view, after);
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/restore" as const;
    const params = { vcluster: keyOf(before), tenant, archive, source, spec, over: true, requestId };
    const hasBytes = volumeBytesOf(board, before);
    return this.#followed(
      before,
      { ...ctx, requestId },
      {
        note: (tx, now, at) => {
          const what = `restore virtual cluster ${name}`;
          requireRoom(tx, quotas, { what, tenant, before: now.spec, after, hasBytes });
          return { ...now, spec: after, follows: { at, replaced: now.spec } };
        },
        ask: async (asking) => (await calls.call(node, route, params, asking)).data,
      },
    );
  }

  /** Work of its node that its record is to follow; answers with the UPID. One after the other: of two at once nobody could say
   * what it is. */
  async #followed(
    record: VirtualClusterRecord,
    ctx: RequestContext,
    work: {
      /** What is written down before its node is asked. */
      readonly note: (tx: Tx, now: VirtualClusterRecord, at: number) => VirtualClusterRecord;
      readonly ask: (ctx: RequestContext) => Promise<string>;
    },
  ): Promise<string> {
    const { records, clock, standDown, log, shutdown } = this.#deps;
    const { name } = record;
    const key = keyOf(record);
    await awaitFollowed(this.#deps, record, ctx.signal);
    await records.transact((tx) => {
      const found = tx.get(vclusterCollection, key)?.value;
      if (found === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${name}'`);
      const at = clock.now();
      tx.put(vclusterCollection, key, work.note(tx, settledRecord(tx, found, at), at));
    });
    const change = (to: (now: VirtualClusterRecord) => VirtualClusterRecord): Promise<void> =>
      records.transact((tx) => {
        const now = tx.get(vclusterCollection, key)?.value;
        if (now !== undefined) tx.put(vclusterCollection, key, to(now));
      });
    let isAsked = false;
    let upid: string;
    try {
      await standDown(key, { requestId: `${ctx.requestId}-alone`, signal: ctx.signal });
      isAsked = true;
      // Whoever hangs up would not know whether it has begun.
      upid = await work.ask({ ...ctx, signal: shutdown });
    } catch (err) {
      // Where the node may have begun, what it makes counts.
      if (!isAsked || isRefusal(err)) await change((now) => followed(now, false));
      throw err;
    }
    await change(({ follows, ...now }) => ({
      ...now,
      ...given({ follows: follows && { ...follows, upid } }),
    }));
    const following = followTask(this.#deps, key, upid, shutdown);
    background(log, `what follows a task of virtual cluster ${name}`, following);
    return upid;
  }

  /** A node that sees the archive, and what the archive says of the cluster. */
  async #find(
    { archive, node }: VcRestoreRequest,
    source: { readonly name: string; readonly tenant: string },
    before: VirtualClusterRecord | undefined,
    ctx: RequestContext,
  ): Promise<{ readonly node: string; readonly spec: Fields }> {
    const { board } = this.#deps;
    const online = board.list().flatMap((each) => (each.health === "online" ? [each.node] : []));
    const origin = this.#named(source)?.node;
    const wanted = before?.node ?? node;
    const nodes =
      wanted === undefined
        ? [...new Set([...online.filter((each) => each === origin), ...online])]
        : [wanted];
    const { found, failures } = await this.#seen(archive, source.tenant, nodes, ctx);
    if (found !== undefined) return found;
    throw new AppError(
      "object.not_found",
      `no node can read the backup ${archive} (${failures.join("; ") || "no node is online"}); what there is: gpvectl vc backups ${source.name}`,
    );
  }

  /** By the first of these nodes that can read it; each that cannot says why. */
  async #seen(
    archive: string,
    tenant: string,
    nodes: readonly string[],
    ctx: RequestContext,
  ): Promise<{
    readonly found?: { readonly node: string; readonly spec: Fields };
    readonly failures: readonly string[];
  }> {
    const failures: string[] = [];
    for (const node of nodes) {
      try {
        const route = "GET /gpve/nodes/{node}/vcluster-archive" as const;
        const { data } = await this.#deps.calls.call(node, route, { archive, tenant }, ctx);
        return { found: { node, spec: data.spec }, failures };
      } catch (err) {
        if (err instanceof AppError && err.kind === "forbidden") throw err;
        failures.push(`${node}: ${messageOf(err)}`);
      }
    }
    return { failures };
  }
}

function sourceOf(archive: string): { readonly name: string; readonly tenant: string } {
  const found = parseClusterArchiveName(archive.slice(archive.indexOf(":backup/") + ":backup/".length));
  if (found !== undefined) return found;
  throw new AppError("request.invalid", `'${archive}' is no backup of a virtual cluster by its name`, {
    errors: { archive: "is like local:backup/vzdump-vc-NAME_TENANT-2026_01_31-23_59_00.tar.gz" },
  });
}

/** Where it ran is no wish of the one that is made of it. */
function withWorkers({ node: _where, ...spec }: Fields, workers: number | undefined): Fields {
  if (workers === undefined) return spec;
  const { pools, ...nodes } = (spec["workerNodes"] ?? {}) as Fields;
  // None at all means pools too.
  const kept = workers === 0 ? {} : given({ pools });
  return { ...spec, workerNodes: { ...nodes, count: workers, ...kept } };
}
