// What /api/v1 does besides objects. Every declared operation has its handler here, or this does not compile.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type {
  ApplyRequest,
  ComponentRequest,
  FailoverRequest,
  HaMaintenanceRequest,
  JoinTokenRequest,
  ScaleRequest,
  SleepRequest,
  VmBackupRequest,
} from "@gpve/contracts/v1/bodies.ts";
import { openApiOfPve } from "@gpve/contracts/v1/openapi-pve.ts";
import { openApiOfV1 } from "@gpve/contracts/v1/openapi.ts";
import type { FixedOperation } from "@gpve/contracts/v1/routes.ts";
import type { V1Object } from "@gpve/contracts/v1/object.ts";
import type { AuditFilters, AuditRecord } from "@gpve/domain/audit/audit-log.ts";
import { ROOT_USER } from "@gpve/domain/request/context.ts";
import { applyObjects } from "../../application/v1/apply-objects.ts";
import type { Idempotency } from "../../application/v1/idempotency.ts";
import { planObjects } from "../../application/v1/plan-objects.ts";
import type { Validator } from "../../application/v1/validation.ts";
import type { ScaleAsk } from "../../application/vcluster/scale/scale-cluster.ts";
import { schedulerOperations } from "./scheduler-operations.ts";
import { scaleAsk, sleepMode } from "./vc-bodies.ts";
import { vcSaveOperations } from "./vc-save-operations.ts";
import type { Call, Reply } from "./call.ts";
import { coverage, discovery } from "./discovery.ts";
import type { TaskRef, V1Deps } from "./ports.ts";

export type FixedHandlers = Readonly<Record<FixedOperation, (call: Call) => Promise<Reply> | Reply>>;

const KUBECONFIG_HOURS = 24;

export function fixedOperations(
  deps: V1Deps,
  parts: { validator: Validator; idempotency: Idempotency },
): FixedHandlers {
  const { validator, idempotency } = parts;
  const kinds = deps.adapters.map((adapter) => adapter.kind);
  const described = once(() => discovery(deps.version, deps.adapters));
  const document = once(() => openApiOfV1({ version: deps.version, kinds }));
  const pveDocument = once(() => openApiOfPve({ version: deps.version, ...deps.pve }));
  const planDeps = { records: deps.records, clock: deps.clock, validator, adapters: deps.adapters };
  const makeImage = async (verb: "pull" | "build", call: Call): Promise<Reply> => {
    const { params, query, ctx, once: wanted } = call;
    const image = { name: params["image"] ?? "", storage: query["storage"] };
    const run = () => deps.makeImage(params["name"] ?? "", verb, image, ctx, wanted?.id ?? ctx.requestId);
    return { body: { task: await idempotency.once(wanted, run) } };
  };
  const component = async (verb: "install" | "verify" | "import", call: Call): Promise<Reply> => {
    const { params, body, ctx, once: wanted } = call;
    const work = { verb, component: params["component"] ?? "", ...(body as ComponentRequest) };
    const run = () => deps.component(params["name"] ?? "", work, ctx, wanted?.id ?? ctx.requestId);
    return { body: { task: await idempotency.once(wanted, run) } };
  };
  const vcluster = async (verb: "start" | "stop" | "retry" | "wake", call: Call): Promise<Reply> => {
    const { params, query, ctx, once: wanted } = call;
    const { forSeconds } = query as Partial<Record<string, string>>;
    const more = given({ forSeconds: forSeconds === undefined ? undefined : Number(forSeconds) });
    const run = () => deps.vclusters.work(params["name"] ?? "", verb, ctx, wanted?.id ?? ctx.requestId, more);
    return { body: { task: await idempotency.once(wanted, run) } };
  };
  const scaleTo = async (asked: ScaleAsk, { params, ctx, once: wanted }: Call): Promise<Reply> => {
    const run = () => deps.vclusters.scale(params["name"] ?? "", asked, ctx, wanted?.id ?? ctx.requestId);
    return { body: { task: await idempotency.once(wanted, run) } };
  };
  return {
    discover: () => ({ body: described() }),
    health: () => ({ body: { status: "ok", checks: [] } }),
    ready: async ({ ctx }) => {
      const checks = await deps.readiness(ctx.signal);
      const ok = checks.every((check) => check.ok);
      return { status: ok ? 200 : 503, body: { status: ok ? "ok" : "failing", checks } };
    },
    listStoreMembers: async () => ({ body: { members: await deps.storeMembers.list() } }),
    removeStoreMember: async ({ params }) => {
      await deps.storeMembers.remove(params["member"] ?? "");
      return { body: {} };
    },
    showDefaults: ({ query }) => ({ body: deps.defaults(query["node"]) }),
    openapi: () => ({ body: document() }),
    openapiPve: () => ({ body: pveDocument() }),
    coverage: () => ({ body: coverage(deps.pve.methods, deps.pve.implemented) }),
    plan: async ({ body, ctx }) => {
      const { result } = await planObjects(planDeps, (body as ApplyRequest).objects, ctx);
      return { body: result };
    },
    apply: async ({ body, ctx, once: wanted }) => {
      const run = () =>
        applyObjects(
          { ...planDeps, submitApply: deps.submitApply },
          (body as ApplyRequest).objects,
          ctx,
          wanted?.id ?? ctx.requestId,
        );
      const result = await idempotency.once(wanted, run);
      return { status: result.task === undefined ? 200 : 202, body: result };
    },
    listAudit: async ({ query }) => {
      const entries: AuditRecord[] = [];
      for await (const entry of deps.auditLog.list(auditFilters(query))) entries.push(entry);
      return { body: { entries } };
    },
    verifyAudit: async () => ({ body: await deps.auditLog.verify() }),
    cancelTask: async ({ object, ctx, once: wanted }) => {
      const task = taskRef(object);
      await idempotency.once(wanted, () => deps.cancelTask(task, ctx).then(() => true));
      return { body: { task: task.upid } };
    },
    taskLog: async ({ object, query, ctx }) => {
      const range = { start: Number(query["start"] ?? 0), limit: Number(query["limit"] ?? 500) };
      const log = await deps.taskLog(taskRef(object), range, ctx);
      return { body: log ?? { lines: [], total: 0 } };
    },
    nodeCapabilities: ({ object, params }) => {
      const capabilities = object?.status["capabilities"];
      if (capabilities === undefined) {
        throw new AppError(
          "node.unavailable",
          `node '${params["name"] ?? ""}' has not reported its capabilities yet`,
        );
      }
      return { body: { node: params["name"], capabilities } };
    },
    probeNode: async ({ params, ctx, once: wanted }) => {
      const node = params["name"] ?? "";
      const run = () => deps.probeNode(node, ctx, wanted?.id ?? ctx.requestId);
      return { body: { task: await idempotency.once(wanted, run) } };
    },
    nodeImages: async ({ params, query, ctx }) => ({
      body: { images: await deps.nodeImages(params["name"] ?? "", query["storage"], ctx) },
    }),
    pullImage: (call) => makeImage("pull", call),
    buildImage: (call) => makeImage("build", call),
    nodeComponents: async ({ params, ctx }) => ({
      body: { components: await deps.nodeComponents(params["name"] ?? "", ctx) },
    }),
    installComponent: (call) => component("install", call),
    verifyComponent: (call) => component("verify", call),
    importComponent: (call) => component("import", call),
    haEvidence: ({ query }) => ({ body: { entries: deps.ha.evidence(query["about"]) } }),
    haMaintenance: async ({ params, body, ctx }) => {
      const { enabled } = body as HaMaintenanceRequest;
      await deps.ha.maintenance(params["name"] ?? "", enabled, ctx.actor?.authid ?? "");
      return { body: { node: params["name"], enabled } };
    },
    vclusterKubeconfig: async ({ params, query, ctx }) => ({
      body: await deps.vclusters.kubeconfig(
        params["name"] ?? "",
        Number(query["hours"] ?? KUBECONFIG_HOURS),
        ctx,
      ),
    }),
    listVclusterKubeconfigs: async ({ params, ctx }) => ({
      body: { kubeconfigs: await deps.vclusters.kubeconfigs(params["name"] ?? "", ctx) },
    }),
    revokeVclusterKubeconfig: async ({ params, ctx }) => {
      await deps.vclusters.revoke(params["name"] ?? "", params["id"] ?? "", ctx);
      return { body: {} };
    },
    startVcluster: (call) => vcluster("start", call),
    stopVcluster: (call) => vcluster("stop", call),
    retryVcluster: (call) => vcluster("retry", call),
    vclusterPodMapping: async ({ params, query, ctx }) => ({
      body: await deps.podMapping.of(
        {
          vcluster: params["name"] ?? "",
          pod: params["pod"] ?? "",
          namespace: query["namespace"] ?? "default",
        },
        ctx,
      ),
    }),
    nodeVclusterPods: async ({ params, ctx }) => ({
      body: { pods: await deps.podMapping.on(params["name"] ?? "", ctx) },
    }),
    scaleVcluster: (call) => scaleTo(scaleAsk(call.body as ScaleRequest), call),
    patchVclusterScale: (call) => scaleTo(scaleAsk(call.body as ScaleRequest), call),
    wakeVcluster: (call) => vcluster("wake", call),
    sleepVcluster: async ({ params, query, body, ctx, once: wanted }) => {
      const mode = sleepMode(query["mode"], body as SleepRequest);
      const run = () => deps.vclusters.sleep(params["name"] ?? "", mode, ctx, wanted?.id ?? ctx.requestId);
      return { body: { task: await idempotency.once(wanted, run) } };
    },
    vclusterEvents: ({ params }) => ({ body: { events: deps.vclusterEvents(params["name"] ?? "") } }),
    vclusterLogs: async ({ params, query, ctx }) => ({
      body: await deps.vclusters.logs(params["name"] ?? "", ctx, query["audit"] === "true"),
    }),
    backupVm: async ({ params, body, ctx, once: wanted }) => {
      const vm = { node: params["name"] ?? "", vmid: params["vmid"] ?? "" };
      const run = () => deps.backupVm(vm, body as VmBackupRequest, ctx, wanted?.id ?? ctx.requestId);
      return { body: { task: await idempotency.once(wanted, run) } };
    },
    failoverVm: async ({ params, body, ctx, once: wanted }) => ({
      body: await idempotency.once(wanted, () =>
        deps.failover.run(Number(params["vmid"]), (body ?? {}) as FailoverRequest, ctx),
      ),
    }),
    retryVm: async ({ params, ctx, once: wanted }) => {
      const vm = { node: params["name"] ?? "", vmid: params["vmid"] ?? "" };
      return { body: { task: await idempotency.once(wanted, () => deps.failedVms.retry(vm, ctx)) } };
    },
    resetVmState: async ({ params, ctx, once: wanted }) => {
      const vm = { node: params["name"] ?? "", vmid: params["vmid"] ?? "" };
      const run = () => deps.failedVms.resetState(vm, ctx, wanted?.id ?? ctx.requestId);
      return { body: { task: await idempotency.once(wanted, run) } };
    },
    vmScreenshot: async ({ params, ctx }) => ({
      body: await deps.vmScreenshot(params["name"] ?? "", params["vmid"] ?? "", ctx),
      headers: { "Content-Type": "image/png" },
    }),
    // Without asking for a websocket there is nothing to be had.
    vmTunnel: () => {
      throw new AppError("request.invalid", "a tunnel is a websocket: ask for it with Upgrade: websocket");
    },
    vmLog: async ({ params, ctx }) => ({
      body: await deps.vmLog(params["name"] ?? "", params["vmid"] ?? "", ctx),
    }),
    ...vcSaveOperations(deps, idempotency),
    ...schedulerOperations(deps.scheduler, idempotency),
    createServerJoinToken: (call) => {
      if (call.ctx.actor?.authid.split("!", 1)[0] !== ROOT_USER)
        throw new AppError(
          "access.denied",
          "a token for a server opens the cluster's keys: root@pam alone makes one, with a login or a token of full rights",
        );
      return invite(call, true);
    },
    createJoinToken: (call) => invite(call, false),
  };

  async function invite({ body, ctx, once: wanted }: Call, server: boolean): Promise<Reply> {
    const request = validatedJoin(body);
    const made = await idempotency.once(
      wanted,
      () =>
        deps.invite({
          ttlMs: (request.ttlSeconds ?? 3600) * 1000,
          createdBy: ctx.actor?.authid ?? "",
          ...given({ node: request.node }),
          ...(server ? { server } : {}),
        }),
      { secret: true },
    );
    const caFingerprint = deps.caFingerprint();
    const servers = await deps.servers();
    return {
      body: {
        token: made.token,
        expiresAt: new Date(made.expiresAt).toISOString(),
        ...given({ caFingerprint }),
        ...(servers.length === 0 ? {} : { servers }),
      },
    };
  }
}

function auditFilters(query: Readonly<Record<string, string>>): AuditFilters {
  const { user, verb, resource, status, before } = query as Partial<Record<string, string>>;
  const time = (name: string): number | undefined => {
    const text = query[name];
    if (text === undefined) return undefined;
    const at = Date.parse(text);
    if (Number.isNaN(at)) {
      throw new AppError("request.invalid", `query parameter '${name}' is not an ISO 8601 time`, {
        errors: { [name]: "is not an ISO 8601 time" },
      });
    }
    return at;
  };
  if (before !== undefined && !/^\d{1,15}$/.test(before)) {
    throw new AppError("request.invalid", "query parameter 'before' is not a sequence number");
  }
  const since = time("since");
  const until = time("until");
  return {
    newestFirst: true,
    limit: Number(query["limit"] ?? 100) || 100,
    ...given({ user, verb, resource, status }),
    ...(before === undefined ? {} : { before: Number(before) }),
    ...given({ since, until }),
  };
}

function validatedJoin(body: unknown): JoinTokenRequest {
  return (body ?? {}) as JoinTokenRequest;
}

function taskRef(object: V1Object | undefined): TaskRef {
  const node = object?.spec["node"];
  if (object === undefined || typeof node !== "string")
    throw new AppError("internal.error", "a task without a node");
  return { upid: object.metadata.name, node };
}

function once<T extends object>(make: () => T): () => T {
  let made: T | undefined;
  return () => (made ??= make());
}
