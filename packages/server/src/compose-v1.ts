// Wires the /api/v1 face onto the same access, records, tasks and audit as /api2.
import { given } from "@gpve/contracts/given.ts";
import { ulid } from "ulid";
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { isImplemented } from "@gpve/domain/schema/method-index.ts";
import { pveMethods } from "@gpve/domain/schema/method-table.ts";
import { taskOfRecord } from "@gpve/domain/task/task-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Store } from "@gpve/store/port.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "./application/node/call-agent.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import { NodeWork } from "./application/node/node-work.ts";
import { FailedVms, resetStateOperation } from "./application/phase/failed-vms.ts";
import { LifeWorks } from "./application/phase/life-works.ts";
import { VmPhases } from "./application/phase/vm-phases.ts";
import { taskRecords } from "@gpve/domain/task/task-record.ts";
import type { KindAdapter } from "./application/v1/adapter.ts";
import { applyObjectsOperation, submitApplyTo } from "./application/v1/apply-objects.ts";
import { loginFailedEvent, recordHappenings } from "./application/v1/event-sources.ts";
import { EventRecorder } from "./application/v1/events.ts";
import type { RecordEvent } from "./application/v1/events.ts";
import { objectsFromHistory } from "./application/v1/history.ts";
import { taskEnd } from "./application/task/task-end.ts";
import { createKindAdapters } from "./application/v1/kind-adapters.ts";
import { withdrawPermit } from "./application/node/guest-permits.ts";
import type { QuotaView } from "./application/quota/quota-view.ts";
import { guestReported } from "./application/node/guest-reported.ts";
import type { MemoryNodeBoard } from "./application/node/board.ts";
import type { Membership } from "./application/node/membership.ts";
import type { ClusterPki } from "./infrastructure/pki/cluster-pki.ts";
import type { FileAuditLog } from "./infrastructure/audit/file-audit-log.ts";
import type { PveApiDeps } from "./presentation/http/pve/ports.ts";
import { createV1Api } from "./presentation/v1/create-v1-api.ts";

/** Where images and backups go that do not say. */

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

/** What is served, and what engines must know of before they start: recovery needs it. */
export function composeKinds(
  parts: Pick<V1Parts, "records" | "clock" | "engine" | "board" | "calls" | "membership"> & {
    readonly phases: Pick<VmPhases, "of" | "onStep">;
    readonly shared: Pick<PveApiDeps, "accessOf" | "log">;
    readonly quotas: Pick<QuotaView, "usage">;
  },
): { readonly adapters: readonly KindAdapter[]; readonly register: (engine: OperationEngine) => void } {
  const adapters = createKindAdapters({
    board: parts.board,
    quotaUsage: (quota) => parts.quotas.usage(quota),
    phases: parts.phases,
    ownNode: () => parts.membership.ownNode(),
    vmActions: {
      callNode: async (node, route, params, ctx) => (await parts.calls.call(node, route, params, ctx)).data,
      withdraw: (vmid, requestId) => withdrawPermit(parts.records, vmid, requestId),
      taskEnd: (upid, signal) => taskEnd(parts.records, upid, signal),
      reported: (guest, signal) => guestReported(parts, guest, signal),
    },
    tasks: taskRecords,
    progress: (upid) => {
      const operation = parts.engine.get(upid);
      return operation === undefined
        ? undefined
        : {
            progress: operation.progress,
            ...given({ step: operation.progressText }),
          };
    },
  });
  const apply = applyObjectsOperation({
    records: parts.records,
    clock: parts.clock,
    adapters,
    accessOf: parts.shared.accessOf,
    log: parts.shared.log,
  });
  return {
    adapters,
    register: (engine) => {
      engine.register(apply);
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
    onTaskEnd: (listener) =>
      records.collection(taskRecords).onChange((_id, entry, previous) => {
        if (entry?.value.endtime === undefined || previous?.value.endtime !== undefined) return;
        const task = taskOfRecord(entry.value);
        if (task !== undefined) listener(task);
      }),
    onPhaseStep: (listener) => phases.onStep(listener),
    now: () => clock.now(),
    recordEvent: recorder.recordEvent,
  });
  return {
    recordEvent: recorder.recordEvent,
    ofAudit: (audit) => (event) => {
      if (event?.resource === "/access/ticket" && event.statusCode === 401) {
        recorder.recordEvent(loginFailedEvent(event.user, event.sourceIP));
      }
      return audit(event);
    },
    close: async () => {
      stop();
      await recorder.flush();
    },
  };
}

export function composeV1(parts: V1Parts): ReturnType<typeof createV1Api> {
  const work = new NodeWork(parts.calls);
  return createV1Api({
    ...parts.shared,
    version: PRODUCT_VERSION,
    records: parts.records,
    clock: parts.clock,
    adapters: parts.adapters,
    history: objectsFromHistory(parts.store),
    submitApply: submitApplyTo(parts.engine),
    auditLog: parts.audit,
    taskLog: (task, range, ctx) => work.taskLog(task, range, ctx),
    cancelTask: (task, ctx) => work.cancelTask(task, ctx),
    probeNode: (node, ctx, requestId) => work.probe(node, ctx, requestId),
    nodeImages: (node, storage, ctx) => work.images(node, storage, ctx),
    makeImage: (node, verb, image, ctx, requestId) => work.makeImage(node, verb, image, ctx, requestId),
    backupVm: (vm, request, ctx, requestId) => work.backUp(vm, request, ctx, requestId),
    failedVms: new FailedVms({
      phases: parts.phases,
      guests: parts.records.collection(guestCollection),
      engine: parts.engine,
      calls: parts.calls,
    }),
    vmScreenshot: (node, vmid, ctx) => work.screenshot({ node, vmid }, ctx),
    vmLog: (node, vmid, ctx) => work.log({ node, vmid }, ctx),
    invite: (options) => parts.membership.invite(options),
    caFingerprint: () => parts.pki.caFingerprint,
    pve: { methods: pveMethods, implemented: isImplemented },
    readiness: async (signal) => {
      const check = async (name: string, work: () => Promise<unknown>) => {
        try {
          await work();
          return { name, ok: true };
        } catch (err) {
          return { name, ok: false, detail: err instanceof Error ? err.message : String(err) };
        }
      };
      return Promise.all([
        check("store", () => parts.store.revision({ signal })),
        check("cache", () => parts.records.fresh({ signal })),
      ]);
    },
    shutdown: parts.shutdown,
  });
}
