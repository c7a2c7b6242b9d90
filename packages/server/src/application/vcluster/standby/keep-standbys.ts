// Stores of clusters are followed by a node of their own, and a cluster whose node is lost goes on from there. One server does
// it at a time. What shall be is written down first, compared with what it was decided on; nodes are told afterwards, and
// again until it is so.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { AgentRoute, AskedOf } from "@gpve/contracts/agent/agent-routes.ts";
import { overlayOn } from "@gpve/domain/vcluster/overlay.ts";
import { nodeWords } from "@gpve/domain/vcluster/cluster-key.ts";
import { boundOf, type ClusterStandby, standbyRefusal } from "@gpve/domain/vcluster/standby/standby.ts";
import { nextStandbyStep, type StandbyStep } from "@gpve/domain/vcluster/standby/standby-plan.ts";
import {
  keyOf,
  nodesOf,
  vclusterCollection,
  type VirtualClusterRecord,
} from "@gpve/domain/vcluster/vcluster-record.ts";
import { shownVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Tx } from "@gpve/store/records/port.ts";
import { asSystem } from "../../node/as-system.ts";
import type { NodeCalls } from "../../node/call-agent.ts";
import type { RecordEvent } from "../../v1/events.ts";
import { promoteStandby, writeDecision } from "../placing/cluster-decisions.ts";
import { runtimeOn } from "../replicas/replica-nodes.ts";
import { spreadAfter, type TellDeps, tellOthers } from "./recovered-spread.ts";
import { type ChosenStandby, StandbyChoice, type StandbyChoiceDeps } from "./choose-standby.ts";
import { clustersOnTheMove, forgetLine, noteLine, renewLineNote } from "./line-notes.ts";
import { SweepLeft } from "./sweep-left.ts";
import { FORGET, type ForgetRoute, sweepStandbys } from "./sweep-standbys.ts";
import { type SignsOfLife, StandbySight } from "./standby-sight.ts";

export interface KeepStandbysDeps extends StandbyChoiceDeps {
  readonly calls: Pick<NodeCalls, "call">;
  readonly signs: SignsOfLife;
  readonly log: Pick<Logger, "warn" | "info">;
  readonly recordEvent: RecordEvent;
  readonly newRequestId: () => string;
  /** Resolves when a task has ended well; throws what it ended with. */
  readonly taskEnd: (upid: string, signal: AbortSignal) => Promise<void>;
}

const LOOK_MS = 1_000;
const MOST_MS = 180_000;
const AGAIN_MS = 5_000;

export class KeepStandbys {
  readonly #deps: KeepStandbysDeps;
  readonly #sight: StandbySight;
  readonly #choice: StandbyChoice;
  readonly #left: SweepLeft;
  readonly #busy = new Set<string>();
  readonly #notBefore = new Map<string, number>();

  constructor(deps: KeepStandbysDeps) {
    this.#deps = deps;
    this.#sight = new StandbySight(deps.board, deps.clock, deps.signs);
    this.#choice = new StandbyChoice(deps);
    this.#left = new SweepLeft({
      ...deps,
      remove: (node, asked, signal) => this.#remove(node, asked, signal),
    });
  }

  /** Until the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    this.#sight.forget();
    let looking = Promise.resolve();
    // One that waits for a node keeps nobody else waiting.
    await every(LOOK_MS, { clock: this.#deps.clock, signal }, () => {
      looking = this.look(signal);
    });
    await looking;
  }

  /** One look at all of them that nobody is at work on. */
  async look(signal: AbortSignal): Promise<void> {
    const { records, log } = this.#deps;
    const all = records.collection(vclusterCollection).list();
    const moving = clustersOnTheMove(records);
    this.#sight.refresh();
    const isAsked = (record: VirtualClusterRecord): boolean =>
      record.isLeaving !== true && !moving.has(keyOf(record)) && !this.#sight.isAtEase(record);
    const one = async (record: VirtualClusterRecord): Promise<void> => {
      const { clock } = this.#deps;
      const key = keyOf(record);
      if (this.#busy.has(key) || (this.#notBefore.get(key) ?? 0) > clock.monotonic()) return;
      this.#notBefore.delete(key);
      this.#busy.add(key);
      try {
        await this.#keep(record, signal);
      } catch (err) {
        if (signal.aborted) return;
        this.#notBefore.set(key, clock.monotonic() + AGAIN_MS);
        const about = { resource: `vcluster/${key}`, err: messageOf(err) };
        log.warn(about, "the standby of a virtual cluster could not be looked after; it is tried again");
      } finally {
        this.#busy.delete(key);
      }
    };
    await Promise.all(all.flatMap(({ value }) => (isAsked(value) ? one(value) : [])));
    await this.#left.look(signal);
    await sweepStandbys({ ...this.#deps, ask: (node, asked) => this.#forget(node, asked, signal) });
  }

  async #keep(record: VirtualClusterRecord, signal: AbortSignal): Promise<void> {
    const { spec, standby, recovered } = record;
    if (standbyRefusal(spec) !== undefined) {
      if (standby !== undefined) await this.#act(record, { do: "drop" }, signal);
      return;
    }
    if (recovered !== undefined && recovered.isDone !== true) return this.#goOn(record, signal);
    await tellOthers(this.#telling(signal), record);
    await this.#clear(record, signal);
    const seen = this.#sight.of(record, this.#others(record));
    const step = nextStandbyStep(seen);
    if (step?.do === "begin") {
      const chosen = await this.#choice.of(record, signal);
      if (chosen !== undefined) return this.#begin(record, chosen, signal);
    } else if (step !== undefined) return this.#act(record, step, signal);
    await renewLineNote(this.#deps, record);
    if (seen.isUp && standby !== undefined) await this.#keepUpToDate(record, standby, signal);
  }

  async #begin(record: VirtualClusterRecord, chosen: ChosenStandby, signal: AbortSignal): Promise<void> {
    const { node: of } = record;
    const { node, explanation } = chosen;
    const { now, next: generation, since } = timesOf(record, this.#deps.clock.now());
    const { version = "", keysAt } = runtimeOn(this.#deps.board, of, keyOf(record)) ?? {};
    const fresh = { node, of, generation, version, inSync: false, since, ...given({ keysAt }) } as const;
    const decision = { part: "standby", node, at: now, by: "", lost: 0, explanation } as const;
    await this.#set(record, { ...fresh, mode: "stream" }, signal, (tx) =>
      writeDecision(tx, keyOf(record), decision),
    );
  }

  async #act(
    record: VirtualClusterRecord,
    step: Exclude<StandbyStep, { readonly do: "begin" }>,
    signal: AbortSignal,
  ): Promise<void> {
    const { node, standby, spec } = record;
    const { now, next, since } = timesOf(record, this.#deps.clock.now());
    switch (step.do) {
      case "solo": {
        if (standby === undefined) return;
        const alone = { ...standby, generation: next, mode: "solo", inSync: false, since } as const;
        await this.#change(record, (was) => ({ ...was, standby: alone }));
        this.#tellEvent(
          record,
          "Warning",
          "VCStandbyAway",
          `goes on without its standby on node ${standby.node}, which does not confirm: what is written now is on node ${node} alone`,
        );
        return this.#tell({ ...record, standby: alone }, false, signal);
      }
      case "resume":
        if (standby === undefined) return;
        return this.#set(record, { ...standby, generation: next, mode: "stream" }, signal);
      case "joined":
        if (standby === undefined) return;
        await this.#change(record, (was) => ({ ...was, standby: { ...standby, inSync: true, since: now } }));
        this.#tellEvent(
          record,
          "Normal",
          "VCStandbyInSync",
          `has a standby on node ${standby.node} that is in sync`,
        );
        return;
      case "tell":
        return this.#tell(record, step.both, signal);
      case "drop":
        await this.#change(record, ({ standby: _gone, ...kept }) => kept);
        return;
      case "recover": {
        const lossMs = boundOf(spec);
        const spread = spreadAfter(this.#deps.board, record, step.to);
        const untold = nodesOf({ node: step.to, ...given({ spread }) }).slice(1);
        await this.#change(
          record,
          ({ standby: _now, ...kept }) => ({
            ...kept,
            node: step.to,
            ...given({ spread }),
            recovered: { from: node, at: now, lossMs, ...(untold.length === 0 ? {} : { untold }) },
            abandoned: [...new Set([...(kept.abandoned ?? []), node])],
          }),
          (tx) => promoteStandby(tx, keyOf(record)),
        );
        this.#tellEvent(
          record,
          "Warning",
          "VCRecovering",
          `goes on from its standby on node ${step.to}: node ${node} is lost`,
        );
      }
    }
  }

  async #set(
    record: VirtualClusterRecord,
    standby: ClusterStandby,
    signal: AbortSignal,
    also?: (tx: Tx) => void,
  ): Promise<void> {
    await this.#change(record, (was) => ({ ...was, standby }), also);
    await this.#tell({ ...record, standby }, standby.mode === "stream", signal);
  }

  /** Who follows first: the store tries as soon as it hears of it. */
  async #tell(record: VirtualClusterRecord, both: boolean, signal: AbortSignal): Promise<void> {
    const { tenant, node, spec, standby } = record;
    if (standby === undefined) return;
    const vcluster = keyOf(record);
    this.#sight.said(vcluster);
    const { generation, mode } = standby;
    if (both) {
      const keys = "GET /gpve/nodes/{node}/vclusters/{vcluster}/standby-keys" as const;
      const { data } = await this.#ask(node, keys, { vcluster, tenant }, signal);
      await this.#ask(
        standby.node,
        "PUT /gpve/nodes/{node}/vcluster-standbys/{vcluster}",
        {
          ...nodeWords(record),
          ...given({ network: record.spread?.network }),
          generation,
          spec: { ...shownVirtualClusterSpec(spec) },
          version: data.version,
          ...given({ etcdVersion: data.etcdVersion }),
          secrets: data.secrets,
          requestId: this.#deps.newRequestId(),
        },
        signal,
      );
    }
    const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/standby" as const;
    const boundMs = boundOf(spec);
    await this.#ask(node, route, { vcluster, tenant, generation, mode, boundMs }, signal);
  }

  /** It is that node's already; what is left is that it hears of it. */
  async #goOn(record: VirtualClusterRecord, signal: AbortSignal): Promise<void> {
    const { tenant, node, spec, recovered } = record;
    const { board, newRequestId, taskEnd, clock } = this.#deps;
    if (recovered === undefined || board.get(node)?.health !== "online") return;
    const route = "POST /gpve/nodes/{node}/vcluster-standbys/{vcluster}/promote" as const;
    const asked = {
      vcluster: keyOf(record),
      tenant,
      spec: { ...shownVirtualClusterSpec(spec) },
      ...given({ network: record.spread?.network, overlay: overlayOn(record.spread, node) }),
      requestId: newRequestId(),
    };
    const { data } = await this.#ask(node, route, asked, signal);
    // Meanwhile: the way to it is all that pods elsewhere need, and its workers there may take minutes.
    const telling = tellOthers(this.#telling(signal), record).catch((err: unknown) => {
      ignore(err, "who is still to be told is written down, and is told when it is done");
    });
    try {
      await taskEnd(data, AbortSignal.any([signal, AbortSignal.timeout(MOST_MS)]));
      await this.#change(record, (was) => ({
        ...was,
        recovered: { ...(was.recovered ?? recovered), isDone: true },
      }));
    } finally {
      await telling;
    }
    const lost =
      recovered.lossMs === 0
        ? "nothing that was answered is lost"
        : `what was answered in the last ${recovered.lossMs / 1000} s before may be lost`;
    const seconds = Math.round((clock.now() - recovered.at) / 1000);
    this.#tellEvent(
      record,
      "Warning",
      "VCRecovered",
      `runs on node ${node}, ${seconds} s after node ${recovered.from} was given up: ${lost}`,
    );
  }

  /** What a node that is back has, of a cluster that is another's now, goes. */
  async #clear(record: VirtualClusterRecord, signal: AbortSignal): Promise<void> {
    const { board, newRequestId } = this.#deps;
    const { tenant } = record;
    for (const node of record.abandoned ?? []) {
      const view = board.get(node);
      if (view !== undefined && view.health !== "online") continue;
      if (view !== undefined) {
        // What volumes of workers had there is nowhere else.
        const asked = { vcluster: keyOf(record), tenant, keepVolumes: true, requestId: newRequestId() };
        await this.#remove(node, asked, signal);
      }
      await this.#change(record, ({ abandoned = [], ...kept }) => {
        const others = abandoned.filter((each) => each !== node);
        return { ...kept, ...(others.length === 0 ? {} : { abandoned: others }) };
      });
    }
  }

  async #remove(
    node: string,
    asked: AskedOf<"DELETE /gpve/nodes/{node}/vclusters/{vcluster}">,
    signal: AbortSignal,
  ): Promise<void> {
    const route = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}" as const;
    const { data } = await this.#ask(node, route, asked, signal);
    await this.#deps.taskEnd(data, AbortSignal.any([signal, AbortSignal.timeout(MOST_MS)]));
  }

  /** What it would go on with: version and keys. */
  async #keepUpToDate(
    record: VirtualClusterRecord,
    standby: ClusterStandby,
    signal: AbortSignal,
  ): Promise<void> {
    const { version, keysAt } = runtimeOn(this.#deps.board, record.node, keyOf(record)) ?? {};
    if (version === undefined || (version === standby.version && keysAt === standby.keysAt)) return;
    await this.#tell(record, true, signal);
    const { keysAt: _before, ...kept } = standby;
    await this.#change(record, (was) => ({ ...was, standby: { ...kept, version, ...given({ keysAt }) } }));
  }

  #forget(node: string, asked: AskedOf<ForgetRoute>, signal: AbortSignal): Promise<unknown> {
    return this.#ask(node, FORGET, asked, signal);
  }

  /** Who could follow at all. */
  #others({ node }: VirtualClusterRecord): readonly string[] {
    const online = this.#deps.board.list().filter(({ health }) => health === "online");
    return online.flatMap((each) => (each.node === node ? [] : each.node));
  }

  #telling(signal: AbortSignal): TellDeps {
    const { board, newRequestId, taskEnd } = this.#deps;
    return {
      board,
      newRequestId,
      ask: (node, route, asked) => this.#ask(node, route, asked, signal),
      taskEnd: (upid) => taskEnd(upid, AbortSignal.any([signal, AbortSignal.timeout(MOST_MS)])),
      change: (record, change) => this.#change(record, change),
    };
  }

  /** Where it is still what was decided on. The line is allowed with it, and no other one. */
  async #change(
    record: VirtualClusterRecord,
    change: (now: VirtualClusterRecord) => VirtualClusterRecord,
    also?: (tx: Tx) => void,
  ): Promise<void> {
    const { name, node, standby } = record;
    const key = keyOf(record);
    await this.#deps.records.transact((tx) => {
      const now = tx.get(vclusterCollection, key)?.value;
      if (
        now === undefined ||
        now.isLeaving === true ||
        now.node !== node ||
        now.standby?.generation !== standby?.generation
      )
        throw new AppError("object.conflict", `virtual cluster '${name}' is another one meanwhile`);
      const next = change(now);
      tx.put(vclusterCollection, key, next);
      also?.(tx);
      if (next.standby?.generation === standby?.generation) return;
      if (standby !== undefined) forgetLine(tx, key, standby);
      if (next.standby?.mode === "stream") noteLine(tx, key, next.standby, this.#deps.clock.now());
    });
  }

  #tellEvent(
    { name, tenant, node }: VirtualClusterRecord,
    type: "Normal" | "Warning",
    reason: string,
    what: string,
  ): void {
    const object = { kind: "VirtualCluster", name, namespace: tenant };
    this.#deps.recordEvent({ type, reason, object, node, message: `virtual cluster ${name} ${what}` });
    this.#deps.log[type === "Warning" ? "warn" : "info"](
      { resource: `vcluster/${name}` },
      `virtual cluster ${name} ${what}`,
    );
  }

  #ask<R extends AgentRoute>(node: string, route: R, params: AskedOf<R>, signal: AbortSignal) {
    return this.#deps.calls.call(
      node,
      route,
      params,
      asSystem({ work: "vcluster-standby", requestId: this.#deps.newRequestId(), signal }),
    );
  }
}

/** Of what is said about it next. */
function timesOf({ standby }: VirtualClusterRecord, now: number) {
  const next = Math.max(now, (standby?.generation ?? 0) + 1);
  return { now, next, since: standby?.inSync === true ? now : (standby?.since ?? now) };
}
