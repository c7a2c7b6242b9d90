// What the /api/v1 face needs from the rest of the server. compose.ts provides it.
import type { FailedVms } from "../../application/phase/failed-vms.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import type { ClusterEvent } from "@gpve/contracts/v1/vc-answers.ts";
import type {
  Defaults,
  FailoverRequest,
  Health,
  TaskLog,
  VmBackupRequest,
} from "@gpve/contracts/v1/bodies.ts";
import type { AuditLog } from "@gpve/domain/audit/audit-log.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { StoreMembers } from "../../application/cluster/store-members.ts";
import type { ComponentWork } from "../../application/node/node-work.ts";
import type { ClusterMoves } from "../../application/vcluster/cluster-moves.ts";
import type { WorkerMoves } from "../../application/vcluster/worker-moves.ts";
import type { ClusterSaves } from "../../application/vcluster/cluster-saves.ts";
import type { PodMapping } from "../../application/vcluster/pod-mapping.ts";
import type { VirtualClusters } from "../../application/vcluster/virtual-clusters.ts";
import type { KindAdapter } from "../../application/v1/adapter.ts";
import type { SubmitApply } from "../../application/v1/apply-objects.ts";
import type { ObjectsAt } from "../../application/v1/history.ts";
import type { ObjectServiceDeps } from "../../application/v1/object-service.ts";
import type { SchedulerFace } from "../../application/scheduler/scheduler-face.ts";
import type { PveApiDeps } from "../http/pve/ports.ts";

export interface TaskRef {
  readonly upid: string;
  readonly node: string;
}

/** Both faces share who is who, what is logged and how it is counted. */
export interface V1Deps extends Pick<
  PveApiDeps,
  "authenticate" | "accessOf" | "audit" | "observe" | "trace" | "log" | "newRequestId" | "delay"
> {
  readonly version: string;
  readonly records: ObjectServiceDeps["records"];
  readonly clock: Clock;
  /** From createKindAdapters, and of the modules. */
  readonly adapters: readonly KindAdapter[];
  /** From objectsFromHistory: lists can be continued at another server. */
  readonly history: ObjectsAt;
  readonly submitApply: SubmitApply;
  readonly auditLog: Pick<AuditLog, "list" | "verify">;
  /** `limit` 0 = all. undefined = there is no log. */
  readonly taskLog: (
    task: TaskRef,
    range: { readonly start: number; readonly limit: number },
    ctx: RequestContext,
  ) => Promise<TaskLog | undefined>;
  readonly cancelTask: (task: TaskRef, ctx: RequestContext) => Promise<void>;
  /** Starts operation `nodeprobe`; answers with its UPID. The same request id gives the same operation. */
  readonly probeNode: (node: string, ctx: RequestContext, requestId: string) => Promise<string>;
  /** Rows of images on a node. */
  readonly nodeImages: (node: string, storage: string | undefined, ctx: RequestContext) => Promise<unknown>;
  /** Starts operation `imagepull` or `imagebuild`; answers with its UPID. */
  readonly makeImage: (
    node: string,
    verb: "pull" | "build",
    image: { readonly name: string; readonly storage: string | undefined },
    ctx: RequestContext,
    requestId: string,
  ) => Promise<string>;
  /** VMs that go on from copies of their disks. */
  readonly failover: {
    run(vmid: number, request: FailoverRequest, ctx: RequestContext): Promise<object>;
  };
  /** What HA did and why, and what it is told. */
  readonly ha: {
    evidence(about: string | undefined): readonly unknown[];
    maintenance(node: string, enabled: boolean, by: string): Promise<void>;
  };
  /** Rows of components on a node. */
  readonly nodeComponents: (node: string, ctx: RequestContext) => Promise<unknown>;
  /** Starts the operation of that verb; answers with its UPID. */
  readonly component: (
    node: string,
    work: ComponentWork,
    ctx: RequestContext,
    requestId: string,
  ) => Promise<string>;
  /** Where pods of virtual clusters run. */
  readonly podMapping: Pick<PodMapping, "of" | "on">;
  readonly vclusters: Pick<
    VirtualClusters,
    "sleep" | "kubeconfig" | "kubeconfigs" | "revoke" | "work" | "scale" | "logs"
  >;
  readonly vclusterMoves: Pick<ClusterMoves, "begin">;
  readonly vclusterWorkerMoves: Pick<WorkerMoves, "begin">;
  readonly vclusterSaves: Pick<
    ClusterSaves,
    "backUp" | "list" | "away" | "tenantsOf" | "restore" | "upgrade" | "rotateCa"
  >;
  /** What happened to one lately, oldest first. */
  readonly vclusterEvents: (key: string) => readonly ClusterEvent[];
  /** Starts operation `vzdump`; answers with its UPID. */
  readonly backupVm: (
    vm: { readonly node: string; readonly vmid: string },
    request: VmBackupRequest,
    ctx: RequestContext,
    requestId: string,
  ) => Promise<string>;
  /** The ways out of Failed; each answers with the UPID of its operation. */
  readonly failedVms: Pick<FailedVms, "retry" | "resetState">;
  /** A PNG. */
  readonly vmScreenshot: (node: string, vmid: string, ctx: RequestContext) => Promise<Uint8Array>;
  readonly vmLog: (node: string, vmid: string, ctx: RequestContext) => Promise<unknown>;
  readonly scheduler: SchedulerFace;
  readonly invite: (options: {
    ttlMs: number;
    createdBy: string;
    node?: string;
    server?: boolean;
  }) => Promise<{ readonly token: string; readonly expiresAt: number }>;
  /** Where agents reach the servers that run. */
  readonly servers: () => Promise<readonly string[]>;
  /** How old reads may be while the store is away; undefined = they are not. */
  readonly ageSeconds: () => number | undefined;
  readonly storeMembers: Pick<StoreMembers, "list" | "remove">;
  readonly caFingerprint: () => string | undefined;
  /** What is taken where a request does not say; with a node, what its VMs get. */
  readonly defaults: (node: string | undefined) => Defaults;
  readonly pve: {
    readonly methods: readonly PveMethod[];
    readonly implemented: (method: PveMethod) => boolean;
  };
  /** What must work for the server to be of use: store, cache, agent. */
  readonly readiness: (signal: AbortSignal) => Promise<Health["checks"]>;
  /** Ends all watches when the server stops. */
  readonly shutdown: AbortSignal;
}
