// What /api/v1 offers of the scheduler.
import type { FixedOperation } from "@gpve/contracts/v1/routes.ts";
import { readRules } from "@gpve/domain/scheduler/read-rules.ts";
import { seenBy, type PlaceQuestion } from "../../application/scheduler/explain-placement.ts";
import type { SchedulerFace } from "../../application/scheduler/scheduler-face.ts";
import type { Idempotency } from "../../application/v1/idempotency.ts";
import type { Call, Reply } from "./call.ts";

type SchedulerOperation = Extract<
  FixedOperation,
  "explainVmPlacement" | "explainVclusterPlacement" | "reservePlace" | "simulatePlace" | "simulateNodeLoss"
>;

interface ReserveBody {
  readonly vmid: number;
  readonly config: Readonly<Record<string, string>>;
  readonly tenant?: string;
  readonly starts?: boolean;
  readonly scheduling?: Readonly<Record<string, unknown>>;
}

export function schedulerOperations(
  face: SchedulerFace,
  idempotency: Idempotency,
): Readonly<Record<SchedulerOperation, (call: Call) => Promise<Reply> | Reply>> {
  return {
    explainVmPlacement: async ({ params, ctx }) => ({
      body: await face.explain.guest(params["name"] ?? "", ctx),
    }),
    explainVclusterPlacement: async ({ params, ctx }) => ({
      body: await face.clusters.story(params["name"] ?? "", ctx),
    }),
    simulatePlace: async ({ body, ctx }) => ({
      body: await face.explain.place(body as PlaceQuestion, ctx.signal),
    }),
    simulateNodeLoss: ({ body }) => ({
      body: face.explain.nodeLoss((body as { readonly nodes: readonly string[] }).nodes),
    }),
    reservePlace: async ({ body, ctx, once }) => {
      const { vmid, config, tenant, starts = false, scheduling } = body as ReserveBody;
      const rules = readRules(scheduling, "scheduling");
      const { id, node, explanation } = await idempotency.once(once, () =>
        face.guests.keep({ kind: "vm", vmid, keys: config, tenant, rules, starts }, ctx),
      );
      return { body: { id, node, explanation: seenBy(ctx, explanation) } };
    },
  };
}
