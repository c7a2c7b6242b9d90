// Wires the /api/v1 face onto the same access, records, tasks and audit as /api2.
import { ulid } from "ulid";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { chosenStorages } from "@gpve/domain/cluster/storage-defaults.ts";
import { isImplemented } from "@gpve/domain/schema/method-index.ts";
import { pveMethods } from "@gpve/domain/schema/method-table.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { StoreMembers, type StoreMembersPort } from "./application/cluster/store-members.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { NodeConditionTimes } from "./application/condition/node-condition-times.ts";
import { NodeWork } from "./application/node/node-work.ts";
import { FailedVms, resetStateOperation } from "./application/phase/failed-vms.ts";
import { LifeWorks } from "./application/phase/life-works.ts";
import { VmPhases } from "./application/phase/vm-phases.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import { cacheReader, type KindAdapter } from "./application/v1/adapter.ts";
import { clusterDefaults, vmDefaultsOf } from "./application/v1/defaults.ts";
import { tenantOf } from "./application/v1/tenant-of.ts";
import { applyObjectsOperation, submitApplyTo } from "./application/v1/apply-objects.ts";
import { recordFailedLogin, recordHappenings, taskEnds } from "./application/v1/event-sources.ts";
import { EventRecorder } from "./application/v1/events.ts";
import type { RecordEvent } from "./application/v1/events.ts";
import { objectsFromHistory } from "./application/v1/history.ts";
import { taskEnd } from "./application/task/task-end.ts";
import type { StorageDefinitions } from "./application/storage/storage-definitions.ts";
import { storageChecks, storageWork } from "./application/storage/storage-work.ts";
import { checkedParts } from "./application/v1/checked-parts.ts";
import { SealedItems } from "./application/v1/sealed-items.ts";
import type { Sealer } from "@gpve/domain/access/ports.ts";
import { createKindAdapters } from "./application/v1/kind-adapters.ts";
import { withdrawPermit } from "./application/node/guest-permits.ts";
import type { QuotaView } from "./application/quota/quota-view.ts";
import { plainlyRefused } from "./application/vcluster/plain-words.ts";
import { eventsOfCluster } from "./application/vcluster/cluster-events.ts";
import { vclusterCollection } from "@gpve/domain/vcluster/vcluster-record.ts";
import { ClusterMoves } from "./application/vcluster/cluster-moves.ts";
import { ClusterRotations } from "./application/vcluster/cluster-rotations.ts";
import { ClusterUpgrades } from "./application/vcluster/cluster-upgrades.ts";
import { ClusterSaves } from "./application/vcluster/cluster-saves.ts";
import { PodMapping } from "./application/vcluster/pod-mapping.ts";
import { standDown } from "./application/vcluster/standby/stand-down.ts";
import { VirtualClusters } from "./application/vcluster/virtual-clusters.ts";
import { WorkerMoves } from "./application/vcluster/worker-moves.ts";
import { guestReported } from "./application/node/guest-reported.ts";
import type { MemoryNodeBoard } from "./application/node/board.ts";
import type { Membership } from "./application/node/membership.ts";
import type { ClusterPki } from "./infrastructure/pki/cluster-pki.ts";
import type { FileAuditLog } from "./infrastructure/audit/file-audit-log.ts";
import type { PveApiDeps } from "./presentation/http/pve/ports.ts";
import type { V1Deps } from "./presentation/v1/ports.ts";
import type { SchedulerFace } from "./application/scheduler/scheduler-face.ts";
import type { Scheduler } from "./compose-scheduler.ts";
import { createV1Api } from "./presentation/v1/create-v1-api.ts";

export interface V1Parts {
  readonly shared: Pick<
    PveApiDeps,
    "authenticate" | "accessOf" | "audit" | "observe" | "trace" | "log" | "newRequestId" | "delay"
  >;
  readonly records: Records;
  readonly store: Store;
  readonly clock: Clock;
  readonly engine: OperationEngine;
  readonly board: MemoryNodeBoard;
  readonly membership: Membership;
  readonly pki: ClusterPki;
  readonly audit: FileAuditLog;
  readonly calls: NodeCalls;
  readonly adapters: readonly KindAdapter[];
  readonly seals: SealedItems;
  readonly ha: V1Deps["ha"];
  readonly vclusters: VirtualClusters;
  readonly failover: V1Deps["failover"];
  readonly vclusterSaves: ClusterSaves;
  readonly vclusterMoves: ClusterMoves;
  readonly vclusterWorkerMoves: WorkerMoves;
  readonly scheduler: SchedulerFace;
  readonly ageSeconds: () => number | undefined;
  readonly storeMembers: StoreMembersPort | undefined;
  readonly shutdown: AbortSignal;
  readonly phases: Pick<VmPhases, "of" | "onStep">;
}

/** Where each VM is in its life, followed from now on. */
export function composePhases({
  records,
  board,
  clock,
}: Pick<V1Parts, "records" | "clock" | "board">): VmPhases {
  return new VmPhases({
    guests: records.collection(guestCollection),
    works: new LifeWorks(records.collection(taskRecords)),
    board,
    clock,
  });
}

/** Nodes report every few seconds, and on a busy machine the first report takes as long. */
const UNTOLD_MS = 10_000;

/** What is served, and what engines must know of before they start: recovery needs it. */
export function composeKinds(
  parts: Pick<V1Parts, "records" | "clock" | "engine" | "board" | "calls" | "membership"> & {
    readonly phases: Pick<VmPhases, "of" | "onStep">;
    readonly shared: Pick<PveApiDeps, "accessOf" | "log">;
    readonly quotas: Pick<QuotaView, "usage" | "quotasOn">;
    readonly sealer: Sealer;
    readonly conditionTimes: Pick<NodeConditionTimes, "since">;
    readonly storages: StorageDefinitions;
    readonly nodeName: string;
    readonly scheduler: Pick<Scheduler, "guests" | "placer" | "rules" | "rebalancer">;
    readonly stop: AbortSignal;
  },
): {
  readonly adapters: readonly KindAdapter[];
  readonly vclusters: VirtualClusters;
  readonly vclusterSaves: ClusterSaves;
  readonly seals: SealedItems;
  readonly vclusterMoves: ClusterMoves;
  readonly vclusterWorkerMoves: WorkerMoves;
  readonly vclusterRotations: ClusterRotations;
  readonly register: (engine: OperationEngine) => void;
} {
  const calls = plainlyRefused(parts.calls, parts.records);
  const ended = (upid: string, signal: AbortSignal) => taskEnd(parts.records, upid, signal);
  const vclusters = new VirtualClusters({
    ...parts,
    placer: parts.scheduler.placer,
    untoldMs: UNTOLD_MS,
    calls,
    taskEnd: ended,
    log: parts.shared.log,
    shutdown: parts.stop,
  });
  const alone = standDown({ ...parts, calls });
  const vclusterUpgrades = new ClusterUpgrades({
    ...parts,
    calls,
    standDown: alone,
    taskEnd: ended,
  });
  const vclusterRotations = new ClusterRotations({ ...parts, calls, taskEnd: ended });
  const vclusterSaves = new ClusterSaves({
    ...parts,
    calls,
    vclusters,
    upgrades: vclusterUpgrades,
    rotations: vclusterRotations,
    storages: () => chosenStorages(parts.records),
    taskEnd: ended,
    standDown: alone,
    log: parts.shared.log,
    shutdown: parts.stop,
  });
  const vclusterMoves = new ClusterMoves({
    ...parts,
    calls,
    vclusters,
    standDown: alone,
    taskEnd: ended,
  });
  const vclusterWorkerMoves = new WorkerMoves({
    ...parts,
    calls,
    vclusters,
    taskEnd: ended,
  });
  const adapters = createKindAdapters({
    board: parts.board,
    conditionTimes: parts.conditionTimes,
    quotaUsage: (quota) => parts.quotas.usage(quota),
    phases: parts.phases,
    rebalancer: parts.scheduler.rebalancer,
    ownNode: () => parts.membership.ownNode(),
    defaultsOf: (node) => vmDefaultsOf(parts, node),
    storageWork: storageWork(parts.storages, storageChecks({ ...parts, localNode: parts.nodeName })),
    vmActions: {
      callNode: async (node, route, params, ctx) => (await parts.calls.call(node, route, params, ctx)).data,
      withdraw: (vmid, requestId) => withdrawPermit(parts.records, vmid, requestId),
      taskEnd: ended,
      reported: (guest, signal) => guestReported(parts, guest, signal),
      placement: parts.scheduler,
    },
    vclusters,
    running: (upid) => parts.engine.get(upid),
  });
  const seals = new SealedItems(parts.sealer, adapters);
  const apply = applyObjectsOperation({
    seals,
    records: parts.records,
    clock: parts.clock,
    adapters,
    accessOf: parts.shared.accessOf,
    log: parts.shared.log,
  });
  return {
    adapters,
    vclusters,
    vclusterSaves,
    seals,
    vclusterMoves,
    vclusterWorkerMoves,
    vclusterRotations,
    register: (engine) => {
      engine.register(apply);
      engine.register(vclusterMoves.operation());
      engine.register(vclusterUpgrades.operation());
      for (const rotation of vclusterRotations.operations()) engine.register(rotation);
      engine.register(vclusterWorkerMoves.operation());
      engine.register(resetStateOperation);
    },
  };
}

/** Records what happens: changes of nodes' health, tasks that fail, logins that fail. */
export function composeEvents(
  parts: Pick<V1Parts, "records" | "clock" | "board"> & {
    readonly phases: Pick<VmPhases, "of" | "onStep">;
    readonly log: RequestLogger;
  },
): {
  readonly recordEvent: RecordEvent;
  readonly ofAudit: (audit: PveApiDeps["audit"]) => PveApiDeps["audit"];
  close(): Promise<void>;
} {
  const { records, clock, board, phases, log } = parts;
  const recorder = new EventRecorder({ records, clock, log, newId: ulid });
  const stop = recordHappenings({
    onNodeChange: (listener) => board.onChange(listener),
    onTaskEnd: taskEnds(records.collection(taskRecords)),
    onPhaseStep: (listener) => phases.onStep(listener),
    clusterOf: (key) => records.collection(vclusterCollection).get(key)?.value,
    tenantOfVm: (vmid) => tenantOf(cacheReader(records), Number(vmid)),
    now: () => clock.now(),
    recordEvent: recorder.recordEvent,
  });
  return {
    recordEvent: recorder.recordEvent,
    ofAudit: (audit) => (event) => {
      recordFailedLogin(event, recorder.recordEvent);
      return audit(event);
    },
    close: async () => {
      stop();
      await recorder.flush();
    },
  };
}

export function composeV1(parts: V1Parts): ReturnType<typeof createV1Api> {
  const work = new NodeWork(parts.calls, () => chosenStorages(parts.records));
  return createV1Api({
    ...parts.shared,
    version: PRODUCT_VERSION,
    records: parts.records,
    clock: parts.clock,
    adapters: parts.adapters,
    scheduler: parts.scheduler,
    history: objectsFromHistory(parts.store),
    submitApply: submitApplyTo(parts.engine, parts.seals),
    auditLog: parts.audit,
    taskLog: (task, range, ctx) => work.taskLog(task, range, ctx),
    cancelTask: (task, ctx) => work.cancelTask(task, ctx),
    probeNode: (node, ctx, requestId) => work.probe(node, ctx, requestId),
    nodeImages: (node, storage, ctx) => work.images(node, storage, ctx),
    makeImage: (node, verb, image, ctx, requestId) => work.makeImage(node, verb, image, ctx, requestId),
    ha: parts.ha,
    nodeComponents: (node, ctx) => work.components(node, ctx),
    component: (node, asked, ctx, requestId) => work.component(node, asked, ctx, requestId),
    podMapping: new PodMapping(parts),
    vclusters: parts.vclusters,
    failover: parts.failover,
    vclusterSaves: parts.vclusterSaves,
    vclusterMoves: parts.vclusterMoves,
    vclusterWorkerMoves: parts.vclusterWorkerMoves,
    vclusterEvents: (key) => eventsOfCluster(parts.records, key),
    backupVm: (vm, request, ctx, requestId) => work.backUp(vm, request, ctx, requestId),
    failedVms: new FailedVms({
      phases: parts.phases,
      guests: parts.records.collection(guestCollection),
      engine: parts.engine,
      calls: parts.calls,
    }),
    vmScreenshot: (node, vmid, ctx) => work.screenshot({ node, vmid }, ctx),
    vmLog: (node, vmid, ctx) => work.log({ node, vmid }, ctx),
    ageSeconds: parts.ageSeconds,
    storeMembers: new StoreMembers(parts.storeMembers, parts.membership.servers),
    invite: (options) => parts.membership.invite(options),
    servers: () => parts.membership.servers.urls(),
    caFingerprint: () => parts.pki.caFingerprint,
    defaults: (node) => clusterDefaults(parts, node),
    pve: { methods: pveMethods, implemented: isImplemented },
    readiness: (signal) =>
      checkedParts({
        store: () => parts.store.revision({ signal }),
        cache: () => parts.records.fresh({ signal }),
      }),
    shutdown: parts.shutdown,
  });
}
