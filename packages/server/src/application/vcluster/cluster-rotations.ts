// New authorities for virtual clusters on several nodes. A server leads, as an operation that any server ends. Nobody shows what the
// new one signed before all to whom he shows it know it: control planes first, one after the other, then the workers of node
// after node. Members of an etcd are each other's clients, and take one turn more. Where a part fails the exchange stays as far
// as it is, with both trusted, and is gone on with by asking again.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { VcRotateRequest } from "@gpve/contracts/v1/vc-save-bodies.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { calledOf } from "@gpve/domain/vcluster/ports.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import {
  requireDroppable,
  requireNoRotation,
  type RotationPart,
} from "@gpve/domain/vcluster/rotate/authorities.ts";
import { keyOf, nodesOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Asking, NodeCalls } from "../node/call-agent.ts";
import { beginClusterWork, requireAllThere } from "./cluster-work.ts";
import { requireWhole } from "./replicas/replica-nodes.ts";
import { WorkOnNodes } from "./work-on-nodes.ts";

const ROTATE_SPREAD = "vcrotateca";
const DROP_SPREAD = "vcdropca";

interface RotateArgs {
  /** Its key. */
  readonly name: string;
  /** Its name in its tenant, where that is something else. */
  readonly called?: string;
  readonly tenant: string;
  /** Where its keys are changed. */
  readonly home: string;
  readonly graceHours?: number;
  /** In the order in which they go. */
  readonly turns: readonly Turn[];
}

/** A node does its part, or gets the keys as they are at home now. */
interface Turn {
  readonly node: string;
  readonly do: RotationPart | "keys";
}

interface RotateState {
  /** How many of them are done. */
  done?: number;
}

type Ctx = StepContext<RotateArgs, RotateState>;

export interface ClusterRotationsDeps {
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly calls: Pick<NodeCalls, "call">;
  readonly engine: Pick<OperationEngine, "submit">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

export class ClusterRotations {
  readonly #deps: ClusterRotationsDeps;
  readonly #nodes: WorkOnNodes;

  constructor(deps: ClusterRotationsDeps) {
    this.#deps = deps;
    this.#nodes = new WorkOnNodes(deps, "vcluster-rotation");
  }

  /** Answers with the UPID. Refused where somebody is away who would be left behind. */
  async begin(
    record: VirtualClusterRecord,
    { graceHours, dropOld = false }: VcRotateRequest,
    ctx: Asking,
    requestId: string,
  ): Promise<string> {
    const { name, tenant, node: home } = record;
    const { board, calls, engine } = this.#deps;
    const key = keyOf(record);
    requireWhole(board, record, "rotate-ca");
    requireAllThere(board, record, "cannot get another authority");
    const route = "GET /gpve/nodes/{node}/vclusters/{vcluster}/rotation" as const;
    const { data } = await calls.call(home, route, { vcluster: key, tenant }, ctx);
    const { until, isWhole } = data;
    const rotation = until === undefined ? undefined : { until, ...(isWhole === true ? { isWhole } : {}) };
    if (dropOld) requireDroppable(name, rotation);
    else requireNoRotation(name, rotation);
    const args = {
      name: key,
      tenant,
      home,
      turns: dropOld ? dropTurns(record) : rotateTurns(record),
      ...given({ graceHours }),
      ...(key === name ? {} : { called: name }),
    };
    const work = { type: dropOld ? DROP_SPREAD : ROTATE_SPREAD, args, requestId };
    return beginClusterWork(engine, record, work, ctx);
  }

  operations(): readonly OperationDefinition<RotateArgs, RotateState>[] {
    return [ROTATE_SPREAD, DROP_SPREAD].map((type) => ({
      type,
      onCrash: "resume",
      initialState: () => ({}),
      steps: [{ name: "turns", weight: 10, run: (ctx) => this.#forward(ctx, type) }],
    }));
  }

  async #forward(ctx: Ctx, type: string): Promise<void> {
    const { turns } = ctx.args;
    for (let at = ctx.state.done ?? 0; at < turns.length; at++) {
      const turn = turns[at];
      if (turn === undefined) continue;
      if (turn.do === "keys") await this.#carry(ctx, turn.node);
      else await this.#tell(ctx, { node: turn.node, part: turn.do }, `${ctx.id}-${at}`);
      ctx.log(`node ${turn.node}: ${WORDS[turn.do]}`);
      ctx.state.done = at + 1;
      await ctx.checkpoint();
    }
    const called = calledOf(ctx.args);
    ctx.log(
      type === DROP_SPREAD
        ? `virtual cluster ${called} knows its new authority alone: kubeconfigs of before are good no more`
        : `kubeconfigs of before are good until the old authority is dropped: after its time, or by gpvectl vc rotate-ca ${called} --drop-old --yes`,
    );
  }

  /** By the server's hands: nodes have no way to ask each other for keys. */
  async #carry(ctx: Ctx, node: string): Promise<void> {
    const { name: vcluster, tenant, home } = ctx.args;
    const asked = { vcluster, tenant };
    const from = "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority" as const;
    const { data } = await this.#nodes.ask(ctx, home, from, asked);
    const to = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/authority" as const;
    await this.#nodes.ask(ctx, node, to, { ...asked, secrets: data.secrets });
  }

  async #tell(
    ctx: Ctx,
    { node, part }: { readonly node: string; readonly part: RotationPart },
    requestId: string,
  ): Promise<void> {
    const { name: vcluster, tenant, graceHours } = ctx.args;
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca" as const;
    const params = { vcluster, tenant, part, requestId, ...given({ graceHours }) };
    const { data } = await this.#nodes.ask(ctx, node, route, params);
    try {
      await this.#nodes.end(ctx, node, data);
    } catch (err) {
      ctx.signal.throwIfAborted();
      throw new AppError("operation.failed", `node ${node}, ${part}: ${messageOf(err)}`, { cause: err });
    }
  }
}

const WORDS: Readonly<Record<Turn["do"], string>> = {
  begin: "it has a new authority, beside the old one",
  keys: "it has the cluster's keys as they are now",
  "control plane": "the control plane runs with them",
  workers: "its workers run with them",
  pods: "pods that start from now on trust both",
  settle: "everybody has what the new authority signed",
  turn: "members of its etcd show what the new authority signed",
  forget: "the old authority is gone",
  leavings: "what trusted the old authority is gone",
};

function rotateTurns(record: VirtualClusterRecord): readonly Turn[] {
  const { node: home } = record;
  return [
    { node: home, do: "begin" },
    ...restartTurns(record),
    { node: home, do: "pods" },
    { node: home, do: "settle" },
    ...others(record).map((node) => ({ node, do: "keys" }) as const),
  ];
}

function dropTurns(record: VirtualClusterRecord): readonly Turn[] {
  const { node: home, spread } = record;
  const turned = hasReplicas(spread) ? [{ node: home, do: "turn" } as const, ...controlTurns(record)] : [];
  return [...turned, { node: home, do: "forget" }, ...restartTurns(record), { node: home, do: "leavings" }];
}

/** Keys come to a node just before it is started with them: what it shows is known by whoever it is shown to. */
function restartTurns(record: VirtualClusterRecord): readonly Turn[] {
  const branches = hasReplicas(record.spread) ? [] : others(record);
  return [
    ...controlTurns(record),
    ...branches.map((node) => ({ node, do: "keys" }) as const),
    ...nodesOf(record).map((node) => ({ node, do: "workers" }) as const),
  ];
}

function controlTurns(record: VirtualClusterRecord): readonly Turn[] {
  const replicas = hasReplicas(record.spread) ? others(record) : [];
  return [
    { node: record.node, do: "control plane" },
    ...replicas.flatMap((node) => [{ node, do: "keys" } as const, { node, do: "control plane" } as const]),
  ];
}

function others(record: VirtualClusterRecord): readonly string[] {
  return nodesOf(record).slice(1);
}
