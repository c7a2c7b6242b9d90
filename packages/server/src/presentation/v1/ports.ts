// What the /api/v1 face needs from the rest of the server. compose.ts provides it.
import type { FailedVms } from "../../application/phase/failed-vms.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import type { Health, TaskLog, VmBackupRequest } from "@gpve/contracts/v1/bodies.ts";
import type { AuditLog } from "@gpve/domain/audit/audit-log.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { KindAdapter } from "../../application/v1/adapter.ts";
import type { SubmitApply } from "../../application/v1/apply-objects.ts";
import type { ObjectsAt } from "../../application/v1/history.ts";
import type { ObjectServiceDeps } from "../../application/v1/object-service.ts";
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
  /** From objectsFromHistory; absent: a list cannot be continued at another server. */
  readonly history?: ObjectsAt;
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
  readonly invite: (options: {
    ttlMs: number;
    createdBy: string;
    node?: string;
  }) => Promise<{ readonly token: string; readonly expiresAt: number }>;
  readonly caFingerprint: () => string | undefined;
  readonly pve: {
    readonly methods: readonly PveMethod[];
    readonly implemented: (method: PveMethod) => boolean;
  };
  /** What must work for the server to be of use: store, cache, agent. */
  readonly readiness: (signal: AbortSignal) => Promise<Health["checks"]>;
  /** Ends all watches when the server stops. */
  readonly shutdown?: AbortSignal;
}
