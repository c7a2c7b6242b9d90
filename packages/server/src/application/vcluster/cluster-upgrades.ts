// Upgrades of virtual clusters on several nodes. A server leads, as an operation that any server ends: one control plane after
// the other, then the workers of node after node, since none may be newer than the API server that it asks. Where one of them
// cannot, it has returned by itself, and those before it are told to, in the opposite order. Nothing that was written in the
// meantime is lost by that: an API server reads what the next minor writes, or replicas of two could not stand beside each other.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { calledOf } from "@gpve/domain/vcluster/ports.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { beginClusterWork, requireAllThere } from "./cluster-work.ts";
import { requireWhole } from "./replicas/replica-nodes.ts";
import type { StandDown } from "./standby/stand-down.ts";
import { WorkOnNodes } from "./work-on-nodes.ts";

const UPGRADE_SPREAD = "vcupgrade";

interface UpgradeArgs {
  /** Its key. */
  readonly name: string;
  /** Its name in its tenant, where that is something else. */
  readonly called?: string;
  readonly tenant: string;
  readonly from: string;
  readonly to: string;
  readonly drain: boolean;
  /** In the order in which they go. */
  readonly parts: readonly Part[];
}

interface Part {
  readonly node: string;
  readonly only: "control plane" | "workers";
}

interface UpgradeState {
  /** How many of them run the new version. */
  done?: number;
  /** How often the way back was told. */
  told?: number;
}

type Ctx = StepContext<UpgradeArgs, UpgradeState>;

export interface ClusterUpgradesDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly calls: Pick<NodeCalls, "call">;
  readonly engine: Pick<OperationEngine, "submit">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
  readonly standDown: StandDown;
}

export class ClusterUpgrades {
  readonly #deps: ClusterUpgradesDeps;
  readonly #nodes: WorkOnNodes;

  constructor(deps: ClusterUpgradesDeps) {
    this.#deps = deps;
    this.#nodes = new WorkOnNodes(deps, "vcluster-upgrade");
  }

  /** Answers with the UPID. Refused where no way leads there, or somebody is away who would be left behind. */
  async begin(
    record: VirtualClusterRecord,
    { version, drain }: { readonly version: string; readonly drain: boolean },
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const { name, tenant, node } = record;
    const { board, calls, engine } = this.#deps;
    const key = keyOf(record);
    requireWhole(board, record, "upgrade");
    requireAllThere(board, record, "cannot be upgraded");
    const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/upgrade-path" as const;
    const { data } = await calls.call(node, route, { vcluster: key, tenant, version }, ctx);
    const args = {
      name: key,
      tenant,
      ...data,
      drain,
      parts: upgradeParts(record),
      ...(key === name ? {} : { called: name }),
    };
    const work = { type: UPGRADE_SPREAD, args, requestId };
    return beginClusterWork(engine, record, work, ctx);
  }

  operation(): OperationDefinition<UpgradeArgs, UpgradeState> {
    return {
      type: UPGRADE_SPREAD,
      onCrash: "resume",
      initialState: () => ({}),
      steps: [
        { name: "upgrade", weight: 10, run: (ctx) => this.#forward(ctx), undo: (ctx) => this.#back(ctx) },
        { name: "note", weight: 0.1, run: (ctx) => this.#note(ctx) },
      ],
    };
  }

  async #forward(ctx: Ctx): Promise<void> {
    const { parts, to, from, drain } = ctx.args;
    await this.#deps.standDown(ctx.args.name, { requestId: `${ctx.id}-alone`, signal: ctx.signal });
    for (let at = ctx.state.done ?? 0; at < parts.length; at++) {
      const part = parts[at];
      if (part === undefined) continue;
      await this.#tell(ctx, part, { version: to, from, drain, requestId: `${ctx.id}-${at}` });
      ctx.log(`node ${part.node}: ${part.only} runs ${to}`);
      ctx.state.done = at + 1;
      await ctx.checkpoint();
    }
  }

  /** The one that failed has returned by itself. */
  async #back(ctx: Ctx): Promise<void> {
    const { parts, to, from } = ctx.args;
    const again = (ctx.state.told = (ctx.state.told ?? 0) + 1);
    await ctx.checkpoint();
    while ((ctx.state.done ?? 0) > 0) {
      const at = (ctx.state.done ?? 0) - 1;
      const part = parts[at];
      if (part !== undefined) {
        const requestId = `${ctx.id}-back-${at}-${again}`;
        await this.#tell(ctx, part, { version: from, from: to, drain: false, requestId });
        ctx.log(`node ${part.node}: ${part.only} runs ${from} again`);
      }
      ctx.state.done = at;
      await ctx.checkpoint();
    }
    ctx.log(`virtual cluster ${calledOf(ctx.args)} runs Kubernetes ${from} as before`);
  }

  async #note(ctx: Ctx): Promise<void> {
    const { name, to } = ctx.args;
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, name)?.value;
      if (now === undefined) return;
      tx.put(vclusterCollection, name, { ...now, spec: { ...now.spec, kubernetesVersion: to } });
    });
    ctx.log(`virtual cluster ${calledOf(ctx.args)} runs Kubernetes ${to} on all of its nodes`);
  }

  async #tell(
    ctx: Ctx,
    { node, only }: Part,
    asked: {
      readonly version: string;
      readonly from: string;
      readonly drain: boolean;
      readonly requestId: string;
    },
  ): Promise<void> {
    const { name: vcluster, tenant } = ctx.args;
    const { version, from, drain, requestId } = asked;
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade" as const;
    const params = { vcluster, tenant, version, drain, part: { only, from }, requestId };
    const { data } = await this.#nodes.ask(ctx, node, route, params);
    try {
      await this.#nodes.end(ctx, node, data);
    } catch (err) {
      ctx.signal.throwIfAborted();
      throw new AppError("operation.failed", `node ${node}, ${only} to ${version}: ${messageOf(err)}`, {
        cause: err,
      });
    }
  }
}

function upgradeParts(record: VirtualClusterRecord): readonly Part[] {
  const nodes = nodesOf(record);
  const controls = hasReplicas(record.spread) ? nodes : [record.node];
  return [
    ...controls.map((node) => ({ node, only: "control plane" }) as const),
    ...nodes.map((node) => ({ node, only: "workers" }) as const),
  ];
}
