// Moves of virtual clusters' control planes. A server leads both nodes, as an operation that any server ends; whose the
// cluster is, is its record's `node`, and changes in one transaction between the moment at which nothing of it runs on
// the one node and the moment at which the other is told to start it.
//
//   allow ──> announce ──> depart ──> hand over ──> take over ──> follow
//     └─────────┴────────────┴───────────┴─────────────┘ undone in the opposite order, until it runs there
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { moveCollection, moveId as noteId } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { type ClusterSpread, movedSpread, overlayOn } from "@gpve/domain/vcluster/overlay.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { calledOf } from "@gpve/domain/vcluster/ports.ts";
import { shownVirtualClusterSpec, type VirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { totalDevices } from "@gpve/domain/vcluster/devices/worker-devices.ts";
import { totalWorkers } from "@gpve/domain/vcluster/vnode/worker-pools.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { LeftAsItIs, type OperationDefinition, type StepContext } from "@gpve/kit/operation/definition.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { Records } from "@gpve/store/records/port.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { requireOnline } from "../node/until-task-end.ts";
import { noteMove } from "../node/guest-moves.ts";
import { beginClusterWork, requireTarget } from "./cluster-work.ts";
import { requireAlone } from "./replicas/replica-nodes.ts";
import { overlayAddress } from "./spread-cluster.ts";
import type { StandDown } from "./standby/stand-down.ts";
import type { VirtualClusters } from "./virtual-clusters.ts";
import { WorkOnNodes } from "./work-on-nodes.ts";
import { requireWaysOut } from "./ways-out.ts";

export const MIGRATE_CLUSTER = "vcmigrate";

export interface MoveArgs {
  /** Its key. */
  readonly name: string;
  /** Its name in its tenant, where that is something else. */
  readonly called?: string;
  readonly tenant: string;
  readonly from: string;
  readonly to: string;
}

interface Place {
  readonly version: string;
  readonly etcdVersion?: string | undefined;
  readonly network?: number | undefined;
}

export interface MoveState {
  place?: Place;
  /** The nodes it was on, and those that it is to be on; null = one. */
  before?: VirtualClusterRecord["spread"] | null;
  after?: VirtualClusterRecord["spread"] | null;
  /** It was told to run there, and has not said that it does not. */
  mayRunThere?: boolean;
  /** It runs there: nothing is taken back any more. */
  isThere?: boolean;
}

type Ctx = StepContext<MoveArgs, MoveState>;

export interface ClusterMovesDeps {
  readonly records: Records;
  readonly board: Pick<NodeBoard, "get">;
  readonly clock: Clock;
  readonly calls: Pick<NodeCalls, "call">;
  readonly vclusters: Pick<VirtualClusters, "require">;
  readonly engine: Pick<OperationEngine, "submit">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
  readonly standDown: StandDown;
}

const TOLD_AT_MOST = 5;
const AGAIN_MS = 2_000;

export class ClusterMoves {
  readonly #deps: ClusterMovesDeps;
  readonly #nodes: WorkOnNodes;

  constructor(deps: ClusterMovesDeps) {
    this.#deps = deps;
    this.#nodes = new WorkOnNodes(deps, "vcluster-move");
  }

  /** Answers with the UPID. */
  async begin(key: string, to: string, ctx: RequestContext, requestId: string): Promise<string> {
    const record = this.#deps.vclusters.require(key);
    const { name, node: from, tenant, spread, spec } = record;
    requireAlone(name, spread, "move");
    requireNoMachines(name, spec);
    requireNoDevices(name, spec);
    if (to === from)
      throw new AppError("request.invalid", `the control plane of '${name}' is on node '${to}' already`, {
        errors: { target: "has it already" },
      });
    requireTarget(this.#deps.board, to);
    for (const node of [from, to]) requireOnline(this.#deps.board, node);
    requireWaysOut(to, spec, ctx);
    const work = {
      type: MIGRATE_CLUSTER,
      args: { name: key, tenant, from, to, ...(key === name ? {} : { called: name }) },
      requestId,
    };
    return beginClusterWork(this.#deps.engine, record, work, ctx);
  }

  operation(): OperationDefinition<MoveArgs, MoveState> {
    return {
      type: MIGRATE_CLUSTER,
      onCrash: "resume",
      initialState: () => ({}),
      steps: [
        { name: "allow", weight: 0.1, run: (ctx) => this.#allow(ctx), undo: (ctx) => this.#forget(ctx) },
        {
          name: "announce",
          weight: 1,
          run: (ctx) => this.#announce(ctx),
          undo: (ctx) => this.#turnAway(ctx),
        },
        {
          name: "depart",
          weight: 3,
          run: (ctx) => this.#work(ctx, ctx.args.from, "depart"),
          undo: async (ctx) => {
            requireNotThere(ctx);
            await this.#work(ctx, ctx.args.from, "stay");
            ctx.log(`virtual cluster ${calledOf(ctx.args)} runs on node ${ctx.args.from} as before`);
          },
        },
        {
          name: "hand over",
          weight: 0.1,
          run: (ctx) => this.#handOver(ctx, "to"),
          undo: async (ctx) => {
            requireNotThere(ctx);
            await this.#handOver(ctx, "from");
          },
        },
        {
          name: "take over",
          weight: 5,
          run: async (ctx) => {
            ctx.state.mayRunThere = true;
            await ctx.checkpoint();
            await this.#work(ctx, ctx.args.to, "take-over");
          },
          undo: (ctx) => this.#turnAway(ctx),
        },
        { name: "follow", weight: 1, run: (ctx) => this.#follow(ctx) },
      ],
    };
  }

  /** The ticket by which the two nodes know each other. */
  async #allow(ctx: Ctx): Promise<void> {
    const { records, clock } = this.#deps;
    const { name, called = name, tenant, from, to } = ctx.args;
    const { node, spread } = this.#deps.vclusters.require(name);
    if (node !== from)
      throw new AppError("object.conflict", `virtual cluster '${called}' is on node '${node}' meanwhile`);
    const { data: place } = await this.#nodes.ask(
      ctx,
      from,
      "GET /gpve/nodes/{node}/vclusters/{vcluster}/place",
      {
        vcluster: name,
        tenant,
      },
    );
    if (place.phase !== "Running")
      throw new AppError(
        "object.conflict",
        `virtual cluster '${called}' is ${place.phase}: its control plane can be moved while it is Running`,
      );
    const { version, etcdVersion, network, workers } = place;
    ctx.state.place = { version, etcdVersion, network };
    ctx.state.before = spread ?? null;
    ctx.state.after = (await this.#spreadAfter(spread, { from, to, workers, network })) ?? null;
    await ctx.checkpoint();
    await records.transact((tx) => {
      noteMove(tx, { vmid: 0, id: ctx.id, from, to, at: clock.now(), purpose: "vcluster", vcluster: name });
    });
    // Until the note is gone nobody begins with another one.
    await this.#deps.standDown(name, { requestId: `${ctx.id}-alone`, signal: ctx.signal });
  }

  /** Workers stay where they are and know it by its address: the two nodes become one network, if they are not. */
  async #spreadAfter(
    spread: VirtualClusterRecord["spread"],
    place: {
      readonly from: string;
      readonly to: string;
      readonly workers: number;
      readonly network: number | undefined;
    },
  ): Promise<VirtualClusterRecord["spread"]> {
    const { from, to, workers, network } = place;
    if (spread === undefined && workers === 0) return undefined;
    const end = (node: string) =>
      overlayAddress({ node, address: this.#deps.board.get(node)?.address ?? "" });
    const now: ClusterSpread = spread ?? { nodes: [end(from)], dealt: 1 };
    return { network: spread?.network ?? network ?? -1, ...movedSpread(now, end(to)) };
  }

  async #announce(ctx: Ctx): Promise<void> {
    const { name, called, tenant, to } = ctx.args;
    const { place, after } = ctx.state;
    const { spec } = this.#deps.vclusters.require(name);
    const overlay = overlayOf(after, to);
    const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/arrive" as const;
    const asked = {
      vcluster: name,
      tenant,
      moveId: ctx.id,
      spec: { ...shownVirtualClusterSpec(spec) },
      version: place?.version ?? "",
      ...given({ called, etcdVersion: place?.etcdVersion, network: after?.network, overlay }),
      requestId: `${ctx.id}-arrive`,
    };
    await this.#nodes.have(ctx, to, route, asked);
    ctx.log(`node ${to} has what Kubernetes ${place?.version} needs`);
  }

  async #handOver(ctx: Ctx, end: "from" | "to"): Promise<void> {
    const { name, from, to } = ctx.args;
    const [node, spread] = end === "to" ? [to, ctx.state.after] : [from, ctx.state.before];
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, name)?.value;
      if (now === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${name}'`);
      if (now.node === node) return;
      if (![from, to].includes(now.node))
        throw new AppError("object.conflict", `virtual cluster '${name}' is on node '${now.node}' meanwhile`);
      const { spread: _old, formerly: _before, ...kept } = now;
      const next = { ...kept, node, ...given({ spread: spread ?? undefined }) };
      tx.put(vclusterCollection, name, end === "to" ? { ...next, formerly: from } : next);
    });
    ctx.log(`virtual cluster ${calledOf(ctx.args)} is node ${node}'s`);
  }

  /** Those with workers, the one that had it last: it keeps store and keys until the others know. */
  async #follow(ctx: Ctx): Promise<void> {
    const { name, tenant, from, to } = ctx.args;
    ctx.state.isThere = true;
    await ctx.checkpoint();
    const { after } = ctx.state;
    for (const { node } of after?.nodes ?? []) {
      const overlay = overlayOf(after, node);
      if (node === from || node === to || overlay === undefined) continue;
      await this.#tell(ctx, node, async (requestId) => {
        const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay" as const;
        await this.#nodes.have(ctx, node, route, { vcluster: name, tenant, overlay, requestId });
      });
    }
    const isGone = await this.#tell(ctx, from, async (requestId) => {
      const route = "POST /gpve/nodes/{node}/vclusters/{vcluster}/let-go" as const;
      const overlay = overlayOf(after, from);
      const asked = { vcluster: name, tenant, moveId: ctx.id, ...given({ overlay }), requestId };
      await this.#nodes.have(ctx, from, route, asked);
    });
    await this.#forget(ctx);
    if (!isGone) return;
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, name)?.value;
      if (now === undefined) return;
      const { formerly: _gone, ...settled } = now;
      tx.put(vclusterCollection, name, settled);
    });
  }

  /** Several times; what a node does not hear then is told to whoever reads the task. Answers whether it heard. */
  async #tell(ctx: Ctx, node: string, say: (requestId: string) => Promise<void>): Promise<boolean> {
    for (let tried = 0; ; tried++) {
      try {
        await say(`${ctx.id}-follow-${tried}`);
        return true;
      } catch (err) {
        ctx.signal.throwIfAborted();
        if (tried + 1 >= TOLD_AT_MOST) {
          ctx.warn(`node ${node} does not know yet where ${calledOf(ctx.args)} is: ${messageOf(err)}`);
          return false;
        }
        await this.#deps.clock.sleep(AGAIN_MS, ctx.signal);
      }
    }
  }

  async #turnAway(ctx: Ctx): Promise<void> {
    if (ctx.state.isThere === true) throw stays(ctx);
    await this.#work(ctx, ctx.args.to, "turn-away");
    ctx.state.mayRunThere = false;
    await ctx.checkpoint();
  }

  async #forget(ctx: Ctx): Promise<void> {
    const id = noteId(0, ctx.id);
    await this.#deps.records.transact((tx) => {
      if (tx.get(moveCollection, id) !== undefined) tx.delete(moveCollection, id);
    });
  }

  /** One thing that a node does, to its end. What is undone may have to be tried again, as another task. */
  async #work(ctx: Ctx, node: string, verb: "depart" | "stay" | "take-over" | "turn-away"): Promise<void> {
    const { name, tenant } = ctx.args;
    const again = verb === "stay" || verb === "turn-away" ? `-${this.#deps.clock.now()}` : "";
    const route = `POST /gpve/nodes/{node}/vclusters/{vcluster}/${verb}` as const;
    const requestId = `${ctx.id}-${verb}${again}`;
    const asked = { vcluster: name, tenant, moveId: ctx.id, requestId };
    const upid = await this.#nodes.have(ctx, node, route, asked);
    ctx.log(`node ${node}: ${verb} is done (${upid})`);
  }
}

/** Two must never have it. */
function requireNotThere(ctx: Ctx): void {
  if (ctx.state.isThere === true) throw stays(ctx);
  if (ctx.state.mayRunThere === true)
    throw new LeftAsItIs(
      `node ${ctx.args.to} was told to start virtual cluster ${calledOf(ctx.args)} and does not say that it is stopped there: it stays that node's`,
    );
}

function stays({ args }: Ctx): LeftAsItIs {
  return new LeftAsItIs(`virtual cluster ${calledOf(args)} runs on node ${args.to} already, and stays there`);
}

function overlayOf(spread: MoveState["after"], node: string): ReturnType<typeof overlayOn> {
  return overlayOn(spread ?? undefined, node);
}

/** They know their control plane on their own bridge, and no way to another node. */
function requireNoMachines(name: string, spec: VirtualClusterSpec): void {
  if (spec.isolationLevel !== "L3" || totalWorkers(spec) === 0) return;
  throw new AppError(
    "feature.unsupported",
    `virtual cluster '${name}' cannot be moved in this release: its workers are machines (level L3), whose network is on one node; remove them first (gpvectl vc scale ${name} --workers 0, and its pools)`,
  );
}

/** Its workers stay where they are, and those with devices are not offered on another node than the control plane. */
function requireNoDevices(name: string, spec: VirtualClusterSpec): void {
  if (Object.keys(totalDevices(spec)).length === 0) return;
  throw new AppError(
    "feature.unsupported",
    `virtual cluster '${name}' cannot be moved in this release: its workers have devices of their node; remove them first (gpvectl vc scale ${name} --workers 0, and its pools)`,
  );
}
