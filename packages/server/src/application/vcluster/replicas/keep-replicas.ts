// Replicas of control planes whose node is lost come to be on another one. One server does it at a time. What shall be is
// written down first; a replica that nobody was told of is, later, one that its node does not have, and is made then.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { AgentRoute, AskedOf } from "@gpve/contracts/agent/agent-routes.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import {
  nextReplacement,
  type Replacement,
  type SeenReplica,
} from "@gpve/domain/vcluster/replicas/replacement-plan.ts";
import { hasReplicas, withReplacement } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { clusterShares } from "@gpve/domain/vcluster/cluster-shares.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { nodeWords } from "@gpve/domain/vcluster/cluster-key.ts";
import { shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import { asSystem } from "../../node/as-system.ts";
import type { Placer } from "../../scheduler/placer.ts";
import type { NodeCalls } from "../../node/call-agent.ts";
import { explainPart, partAt, replicaFilters } from "../placing/choose-node.ts";
import { type PartDecision, writeDecision } from "../placing/cluster-decisions.ts";
import type { PartName } from "../placing/cluster-request.ts";
import { leaveUnwanted } from "../removal/leave-unwanted.ts";
import { overlayAddress } from "../spread-cluster.ts";
import { isServing, runtimeOn } from "./replica-nodes.ts";

export interface KeepReplicasDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly clock: Clock;
  readonly log: Pick<Logger, "warn">;
  readonly newRequestId: () => string;
  readonly placer: Pick<Placer, "settle">;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

type Spread = NonNullable<VirtualClusterRecord["spread"]>;

/** Written down, and still to be made. */
interface Noted {
  readonly wanted: Replacement;
  readonly after: Spread;
}

const LOOK_MS = 5_000;
const MOST_MS = 180_000;

export class KeepReplicas {
  readonly #deps: KeepReplicasDeps;
  /** Since when each is as it is; monotonic. */
  readonly #since = new Map<string, { readonly state: SeenReplica["state"]; readonly at: number }>();
  /** Clusters that are being worked on. */
  readonly #busy = new Set<string>();

  constructor(deps: KeepReplicasDeps) {
    this.#deps = deps;
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#since.clear();
    let looking = Promise.resolve();
    // One that waits for a node keeps nobody else waiting.
    await every(LOOK_MS, { clock: this.#deps.clock, signal }, () => {
      looking = this.look(signal);
    });
    await looking;
  }

  /** One look at all of them that nobody is at work on; resolves when what came of it is done. */
  async look(signal: AbortSignal): Promise<void> {
    const { records } = this.#deps;
    const work: Promise<void>[] = [];
    for (const { id } of records.collection(vclusterCollection).list()) {
      // Those before it have taken their time.
      const record = records.collection(vclusterCollection).get(id)?.value;
      if (record === undefined || !hasReplicas(record.spread) || record.isLeaving === true) continue;
      const key = keyOf(record);
      if (this.#busy.has(key)) continue;
      this.#busy.add(key);
      // One after the other: each sees where the one before goes.
      const decided = await this.#told(key, signal, () => this.#decide(record, signal));
      const carryOut = async (): Promise<void> => {
        await this.#clear(record, signal);
        if (decided !== undefined) await this.#make(record, decided.after, decided.wanted, signal);
      };
      work.push(this.#told(key, signal, carryOut).finally(() => this.#busy.delete(key)));
    }
    await Promise.all(work);
  }

  /** What fails is tried again in a later look. */
  async #told<T>(key: string, signal: AbortSignal, work: () => Promise<T>): Promise<T | undefined> {
    try {
      return await work();
    } catch (err) {
      const about = { resource: `vcluster/${key}`, err: messageOf(err) };
      if (!signal.aborted) this.#deps.log.warn(about, "a replica could not be replaced; it is tried again");
      return undefined;
    }
  }

  /** Nodes that are back and have something that is not theirs any more. */
  async #clear(record: VirtualClusterRecord, signal: AbortSignal): Promise<void> {
    const { board } = this.#deps;
    const { tenant, spread, abandoned = [] } = record;
    const key = keyOf(record);
    for (const node of abandoned) {
      const isPart = spread?.nodes.some((each) => each.node === node) === true;
      if (!isPart && board.get(node) !== undefined && board.get(node)?.health !== "online") continue;
      if (!isPart && board.get(node) !== undefined) {
        const route = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}" as const;
        const asked = { vcluster: key, tenant, requestId: this.#deps.newRequestId(), keepVolumes: true };
        const { data } = await this.#ask(node, route, asked, signal);
        await this.#end(data, signal);
      }
      await this.#change(key, ({ abandoned: left = [], ...now }) => {
        const others = left.filter((each) => each !== node);
        return { ...now, ...(others.length === 0 ? {} : { abandoned: others }) };
      });
    }
  }

  /** Written down already. */
  async #decide(record: VirtualClusterRecord, signal: AbortSignal): Promise<Noted | undefined> {
    const { spread } = record;
    if (spread === undefined) return undefined;
    const seen = spread.nodes.map(({ node }) => this.#seen(keyOf(record), node));
    if (seen.every(({ state }) => state === "well" || state === "busy")) return undefined;
    const online = this.#deps.board.list().filter(({ health }) => health === "online");
    const others = online.map(({ node }) => node).filter((each) => !nodesOf(record).includes(each));
    const wanted = nextReplacement(seen, others);
    if (wanted === undefined) return undefined;
    // It is made again where it was: nobody has to look for a place.
    if (wanted.lost === wanted.by) return this.#note(record, wanted);
    return this.#elsewhere(record, wanted.lost, signal);
  }

  /** Where the scheduler says; undefined = nowhere now. */
  async #elsewhere(
    record: VirtualClusterRecord,
    lost: string,
    signal: AbortSignal,
  ): Promise<Noted | undefined> {
    const { placer, clock } = this.#deps;
    const key = keyOf(record);
    const part = partOf(record, lost);
    const request = partAt(record, lost, part);
    const filters = replicaFilters(this.#deps, record);
    const instead = clusterShares(record).find(({ node }) => node === lost)?.request.id;
    try {
      return await placer.settle(request, {
        signal,
        decide: (state, policy) => {
          const terms = { filters, ...given({ instead }) };
          const fitting = explainPart(state, policy, request, terms);
          // A cluster that lacks a replica is worse off than one whose workers find no room there yet.
          const explanation =
            fitting.node === undefined
              ? explainPart(state, policy, { ...request, demand: { cpu: 0, memory: 0 } }, terms)
              : fitting;
          if (explanation.node === undefined)
            throw new AppError("capacity.exceeded", `no node can have ${part} of ${record.name}`);
          return { nodes: [explanation.node], explanation };
        },
        commit: (tx, { nodes: [by = ""], explanation }, beaten) => {
          const decision: PartDecision = {
            part,
            node: by,
            at: clock.now(),
            by: "",
            lost: beaten,
            explanation,
          };
          const noted = this.#noteIn(tx, record, { lost, by });
          if (noted !== undefined) writeDecision(tx, key, decision, lost);
          return noted;
        },
      });
    } catch (err) {
      if (!isAppError(err, "capacity.exceeded")) throw err;
      ignore(err, "no node fits now: it is looked for again");
      return undefined;
    }
  }

  #seen(cluster: string, node: string): SeenReplica {
    const { board, clock } = this.#deps;
    const view = board.get(node);
    const state =
      view?.health !== "online"
        ? "lost"
        : isServing(board, node, cluster)
          ? "well"
          : view.report !== undefined && runtimeOn(board, node, cluster) === undefined
            ? "missing"
            : "busy";
    const key = `${cluster} ${node}`;
    const now = clock.monotonic();
    const before = this.#since.get(key);
    if (before?.state !== state) this.#since.set(key, { state, at: now });
    return { node, state, forMs: before?.state === state ? now - before.at : 0 };
  }

  #note(record: VirtualClusterRecord, wanted: Replacement): Promise<Noted | undefined> {
    return this.#deps.records.transact((tx) => this.#noteIn(tx, record, wanted));
  }

  /** Where nobody else has changed its nodes meanwhile. */
  #noteIn(tx: Tx, record: VirtualClusterRecord, wanted: Replacement): Noted | undefined {
    const { lost, by } = wanted;
    const key = keyOf(record);
    const now = tx.get(vclusterCollection, key)?.value;
    if (now === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${key}'`);
    if (now.spread === undefined || JSON.stringify(now.spread) !== JSON.stringify(record.spread))
      return undefined;
    const address = this.#deps.board.get(by)?.address ?? "";
    const nodes = withReplacement(now.spread.nodes, lost, overlayAddress({ node: by, address }));
    const after = { ...now.spread, nodes };
    const abandoned = lost === by ? now.abandoned : [...(now.abandoned ?? []), lost];
    const node = now.node === lost ? by : now.node;
    tx.put(vclusterCollection, key, { ...now, node, spread: after, ...given({ abandoned }) });
    return { wanted, after };
  }

  /** The others are told whom to let in, then it is made there, with what they all have alike. */
  async #make(
    record: VirtualClusterRecord,
    spread: Spread,
    { lost, by }: Replacement,
    signal: AbortSignal,
  ): Promise<void> {
    const { log, newRequestId } = this.#deps;
    const { spec } = record;
    const { vcluster, tenant, ...called } = nodeWords(record);
    log.warn({ resource: `vcluster/${vcluster}`, lost, by }, "a replica is replaced");
    const nodes = spread.nodes.map((each) => ({ ...each }));
    const others = nodes.flatMap(({ node }, at) => (node === by ? [] : [{ node, at }]));
    for (const { node, at } of others) {
      const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay" as const;
      const asked = { vcluster, tenant, overlay: { nodes, at }, requestId: newRequestId() };
      const { data } = await this.#ask(node, route, asked, signal);
      await this.#end(data, signal);
    }
    const authority = "GET /gpve/nodes/{node}/vclusters/{vcluster}/authority" as const;
    const from = others[0]?.node ?? "";
    const { data } = await this.#ask(from, authority, { vcluster, tenant }, signal);
    await this.#ask(
      by,
      "POST /gpve/nodes/{node}/vclusters",
      {
        vcluster,
        ...called,
        tenant,
        spec: { ...shownVirtualClusterSpec(spec), kubernetesVersion: data.version },
        network: spread.network,
        overlay: { nodes, at: nodes.findIndex(({ node }) => node === by) },
        secrets: data.secrets,
        requestId: newRequestId(),
      },
      signal,
    );
    // Others were told first: it may have been deleted meanwhile.
    await leaveUnwanted(this.#deps, record, [by], this.#asking(signal));
  }

  /** One that does not end is left to a later look. */
  #end(upid: string, signal: AbortSignal): Promise<void> {
    return this.#deps.taskEnd(upid, AbortSignal.any([signal, AbortSignal.timeout(MOST_MS)]));
  }

  async #change(key: string, change: (now: VirtualClusterRecord) => VirtualClusterRecord): Promise<void> {
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, key)?.value;
      if (now === undefined) throw new AppError("object.not_found", `there is no VirtualCluster '${key}'`);
      const next = change(now);
      if (next !== now) tx.put(vclusterCollection, key, next);
    });
  }

  #ask<R extends AgentRoute>(node: string, route: R, params: AskedOf<R>, signal: AbortSignal) {
    return this.#deps.calls.call(node, route, params, this.#asking(signal));
  }

  #asking(signal: AbortSignal) {
    return asSystem({ work: "vcluster-replicas", requestId: this.#deps.newRequestId(), signal });
  }
}

/** By the order of its nodes, as when it was made. */
function partOf({ spread }: VirtualClusterRecord, node: string): PartName {
  return `replica-${(spread?.nodes.findIndex((each) => each.node === node) ?? 0) + 1}`;
}
