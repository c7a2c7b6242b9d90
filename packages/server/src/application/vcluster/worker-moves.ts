// Moves of single workers to other nodes. A server leads the nodes, as an operation that any server ends. A worker ends on the one
// node, drained, before it begins on the other, with the same name and the same addresses; it has no volumes, for these are folders
// of its node.
//
//   prepare ──> leave ──> arrive ──> tidy
//      └──────────┴──────────┘ undone in the opposite order
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { nodeWords } from "@gpve/domain/vcluster/cluster-key.ts";
import {
  type ClusterSpread,
  overlayOn,
  placeIn,
  trimmedSpread,
  withMovedWorker,
  withNode,
  workerNode,
} from "@gpve/domain/vcluster/overlay.ts";
import { hasReplicas } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { hasDevices } from "@gpve/domain/vcluster/devices/worker-devices.ts";
import { slotOf } from "@gpve/domain/vcluster/vnode/vnode.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { OperationDefinition, StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { requireOnline } from "../node/until-task-end.ts";
import { beginClusterWork, requireTarget } from "./cluster-work.ts";
import { requireWhole } from "./replicas/replica-nodes.ts";
import { overlayAddress } from "./spread-cluster.ts";
import type { VirtualClusters } from "./virtual-clusters.ts";
import { WorkOnNodes } from "./work-on-nodes.ts";

const MOVE_WORKER = "vcmoveworker";

interface WorkerMoveArgs {
  /** Of the cluster: its key. */
  readonly name: string;
  readonly tenant: string;
  readonly worker: string;
  readonly slot: number;
  readonly from: string;
  readonly to: string;
}

type Spread = NonNullable<VirtualClusterRecord["spread"]>;

interface MoveState {
  /** null = it was on one node. */
  before?: Spread | null;
  /** How often nodes were told: each is work of its own. */
  told?: number;
}

type Ctx = StepContext<WorkerMoveArgs, MoveState>;

export interface WorkerMovesDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly calls: Pick<NodeCalls, "call">;
  readonly vclusters: Pick<VirtualClusters, "require">;
  readonly engine: Pick<OperationEngine, "submit">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

export class WorkerMoves {
  readonly #deps: WorkerMovesDeps;
  readonly #nodes: WorkOnNodes;

  constructor(deps: WorkerMovesDeps) {
    this.#deps = deps;
    this.#nodes = new WorkOnNodes(deps, "vcluster-worker-move");
  }

  /** Answers with the UPID. */
  async begin(
    key: string,
    { worker, target: to }: { readonly worker: string; readonly target: string },
    ctx: RequestContext,
    requestId: string,
  ): Promise<string> {
    const record = this.#deps.vclusters.require(key);
    const { name, tenant } = record;
    const slot = movableSlot(record, worker);
    const from = workerNode(record.spread ?? { nodes: [{ node: record.node, address: "" }] }, slot) ?? "";
    if (from === to)
      throw new AppError("request.invalid", `${worker} of '${name}' is on node '${to}' already`, {
        errors: { target: "has it already" },
      });
    requireTarget(this.#deps.board, to);
    requireWhole(this.#deps.board, record, "migrate");
    for (const node of new Set([...nodesOf(record), to])) requireOnline(this.#deps.board, node);
    if (hasReplicas(record.spread) && !nodesOf(record).includes(to))
      throw new AppError(
        "request.invalid",
        `${worker} of '${name}' cannot go to node '${to}': workers of a cluster of several replicas are where these are: ${nodesOf(record).join(", ")}`,
        { errors: { target: "has no replica of it" } },
      );
    const work = { type: MOVE_WORKER, args: { name: key, tenant, worker, slot, from, to }, requestId };
    return beginClusterWork(this.#deps.engine, record, work, ctx);
  }

  operation(): OperationDefinition<WorkerMoveArgs, MoveState> {
    return {
      type: MOVE_WORKER,
      onCrash: "resume",
      initialState: () => ({}),
      steps: [
        {
          name: "prepare",
          weight: 2,
          run: (ctx) => this.#prepare(ctx),
          undo: (ctx) => this.#trim(ctx),
        },
        {
          name: "leave",
          weight: 4,
          run: (ctx) => this.#leave(ctx, ctx.args.from),
          // It is that node's still: what is missing there is made again.
          undo: (ctx) => this.#tell(ctx, ctx.args.from, { bring: true }),
        },
        {
          name: "arrive",
          weight: 4,
          run: async (ctx) => {
            await this.#place(ctx, ctx.args.to);
            await this.#tellAll(ctx, ctx.args.to);
            ctx.log(`${ctx.args.worker} is Ready on node ${ctx.args.to}`);
          },
          undo: async (ctx) => {
            await this.#leave(ctx, ctx.args.to);
            await this.#place(ctx, ctx.args.from);
            await this.#tellAll(ctx, undefined);
          },
        },
        {
          name: "tidy",
          weight: 0.5,
          run: (ctx) =>
            this.#trim(ctx).catch((err: unknown) => {
              ctx.signal.throwIfAborted();
              ctx.warn(`a node that has nothing of it any more still knows it: ${messageOf(err)}`);
            }),
        },
      ],
    };
  }

  /** The other node is one network with those that it is on; nothing of it runs there yet. */
  async #prepare(ctx: Ctx): Promise<void> {
    const { name: vcluster, tenant, to } = ctx.args;
    const record = this.#deps.vclusters.require(vcluster);
    if (ctx.state.before === undefined) {
      ctx.state.before = record.spread ?? null;
      await ctx.checkpoint();
    }
    if (ctx.state.before !== null && placeIn(ctx.state.before, to) >= 0) return;
    const end = (node: string) =>
      overlayAddress({ node, address: this.#deps.board.get(node)?.address ?? "" });
    const at = "GET /gpve/nodes/{node}/vclusters/{vcluster}/place" as const;
    const { data: place } = await this.#nodes.ask(ctx, record.node, at, { vcluster, tenant });
    const now: ClusterSpread = record.spread ?? { nodes: [end(record.node)], dealt: 1 };
    const network = record.spread?.network ?? place.network ?? -1;
    const spread = { network, ...withNode(now, end(to)) };
    await this.#change(ctx, (was) => ({ ...was, spread }));
    const others = nodesOf({ ...record, spread }).filter((node) => node !== to);
    for (const node of others) await this.#tell(ctx, node);
    const authority = "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority" as const;
    const { data } = await this.#nodes.ask(ctx, record.node, authority, { vcluster, tenant });
    const spec = { ...shownVirtualClusterSpec(record.spec), kubernetesVersion: data.version };
    const overlay = overlayOn(spread, to);
    await this.#nodes.have(ctx, to, "POST /gpve/nodes/{node}/vclusters", {
      ...nodeWords(record),
      spec,
      network,
      ...given({ overlay }),
      secrets: data.secrets,
      requestId: this.#requestId(ctx),
    });
    ctx.log(`node ${to} is one network with ${others.join(", ")}`);
  }

  async #leave(ctx: Ctx, node: string): Promise<void> {
    const { name: vcluster, tenant, worker } = ctx.args;
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/worker-leave" as const;
    const asked = { vcluster, tenant, worker, requestId: this.#requestId(ctx) };
    await this.#nodes.have(ctx, node, route, asked);
    ctx.log(`${worker} has left node ${node}`);
  }

  /** Written down before anybody begins with it. */
  async #place(ctx: Ctx, node: string): Promise<void> {
    const { slot } = ctx.args;
    const end = overlayAddress({ node, address: this.#deps.board.get(node)?.address ?? "" });
    await this.#change(ctx, (was) =>
      was.spread === undefined
        ? was
        : { ...was, spread: { network: was.spread.network, ...withMovedWorker(was.spread, slot, end) } },
    );
  }

  /** All of its nodes, and last the one that brings what is missing there. */
  async #tellAll(ctx: Ctx, bringing: string | undefined): Promise<void> {
    const nodes = nodesOf(this.#deps.vclusters.require(ctx.args.name));
    for (const node of nodes.filter((each) => each !== bringing)) await this.#tell(ctx, node);
    if (bringing !== undefined) await this.#tell(ctx, bringing, { bring: true });
  }

  /** What it is there from now on. */
  async #tell(ctx: Ctx, node: string, more: { readonly bring?: boolean } = {}): Promise<void> {
    const { name: vcluster, tenant } = ctx.args;
    const overlay = overlayOn(this.#deps.vclusters.require(vcluster).spread, node);
    const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay" as const;
    const asked = { vcluster, tenant, ...given({ overlay }), ...more, requestId: this.#requestId(ctx) };
    await this.#nodes.have(ctx, node, route, asked);
  }

  /** Nodes that have neither workers nor the control plane go, the last ones first; the others hear of it. */
  async #trim(ctx: Ctx): Promise<void> {
    const { name: vcluster, tenant } = ctx.args;
    const { spread, node: home } = this.#deps.vclusters.require(vcluster);
    if (spread === undefined || hasReplicas(spread)) return;
    const after = trimmedSpread(spread);
    const left = new Set(after.nodes.map(({ node }) => node));
    const gone = nodesOf({ node: home, spread }).filter((node) => !left.has(node));
    if (gone.length === 0) return;
    for (const node of gone) {
      const route = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}" as const;
      const asked = { vcluster, tenant, requestId: this.#requestId(ctx) };
      await this.#nodes.have(ctx, node, route, asked);
    }
    await this.#change(ctx, ({ spread: _was, ...kept }) =>
      after.nodes.length < 2 ? kept : { ...kept, spread: { ...after, network: spread.network } },
    );
    await this.#tellAll(ctx, undefined);
  }

  async #change(ctx: Ctx, change: (now: VirtualClusterRecord) => VirtualClusterRecord): Promise<void> {
    const { name } = ctx.args;
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, name)?.value;
      if (now === undefined || now.isLeaving === true)
        throw new AppError("object.not_found", `there is no VirtualCluster '${name}'`);
      tx.put(vclusterCollection, keyOf(now), change(now));
    });
  }

  /** Each time another piece of work: all of it can be done again. */
  #requestId(ctx: Ctx): string {
    const told = (ctx.state.told = (ctx.state.told ?? 0) + 1);
    return `${ctx.id}-${told}-${this.#deps.clock.now()}`;
  }
}

/** Throws where it is no worker that could be moved, with the reason. */
function movableSlot({ name, spec }: VirtualClusterRecord, worker: string): number {
  const slot = slotOf(worker);
  const refused = (why: string): AppError =>
    new AppError("feature.unsupported", `${worker} of virtual cluster '${name}' cannot be moved: ${why}`);
  if (spec.isolationLevel === "L3")
    throw refused("it is a machine (level L3), whose network is on one node; scale it away and make another");
  if (hasDevices(spec)) throw refused("it has devices of its node; scale it away and make another cluster");
  if (spec.pools !== undefined)
    throw refused("the cluster has pools of workers, which are on one node in this release");
  if (slot === undefined || slot < 0 || slot >= spec.workers)
    throw new AppError("request.invalid", `virtual cluster '${name}' has no worker '${worker}'`, {
      errors: {
        worker: spec.workers === 0 ? "there are none" : `is one of worker-1 to worker-${spec.workers}`,
      },
    });
  return slot;
}
