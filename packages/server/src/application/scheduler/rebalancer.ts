// Makes plans of moves and carries approved ones out, one move after the other. One server does it at a time; what it was
// doing is in the plan's record, where the next one goes on.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { guestCollection } from "@gpve/domain/guest/guest-record.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { isServerTask } from "@gpve/domain/task/operation-tasks.ts";
import { taskFromUpid } from "@gpve/domain/task/task.ts";
import { managerCollection, MANAGER_STATUS_ID } from "@gpve/domain/ha/collections.ts";
import { explainAnew } from "@gpve/domain/scheduler/explain.ts";
import type { Extend } from "@gpve/domain/scheduler/plugin.ts";
import type { Policy } from "@gpve/domain/scheduler/policy.ts";
import { imbalanceOf, planRebalance, steadyRounds, violationsOf } from "@gpve/domain/scheduler/rebalance.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { SchedulerConfiguration } from "@gpve/kit/config/configuration.ts";
import { everyDue } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Entry, Records } from "@gpve/store/records/port.ts";
import { asSystem } from "../node/as-system.ts";
import type { NodeCalls } from "../node/call-agent.ts";
import { untilTaskEnd } from "../node/until-task-end.ts";
import { taskEnd } from "../task/task-end.ts";
import type { ClusterView } from "./cluster-view.ts";
import { rebalancePlansDef, type PlannedMove, type PlanRecord, type PlanSpec } from "./rebalance-records.ts";
import type { SchedulerFigures } from "./scheduler-figures.ts";

export type RebalanceSettings = SchedulerConfiguration["rebalance"];

export interface RebalancerDeps {
  readonly records: Records;
  readonly board: Pick<NodeBoard, "get">;
  readonly view: Pick<ClusterView, "state">;
  readonly policy: Policy;
  /** Plans are worked out without extenders, which are asked about each move before it is made. */
  readonly extend: Extend | undefined;
  readonly settings: RebalanceSettings;
  readonly figures: SchedulerFigures;
  readonly clock: Clock;
  readonly newId: () => string;
  readonly log: Logger;
}

export const DEFAULT_REBALANCE: RebalanceSettings = {
  mode: "off",
  intervalSeconds: 60,
  threshold: 30,
  margin: 10,
  holdRounds: 3,
  maxMoves: 5,
  coolDownSeconds: 3600,
};

const ITSELF = "the rebalancer";

/** Plans that are over are kept for so long. */
const KEPT_MS = 7 * 86_400_000;
/** Own plans that nobody approved: the cluster that they were worked out for is another by then. */
const LAPSES_MS = 86_400_000;
/** The manager reads what it is told every few seconds; another one may have to take over first. */
const HA_PAUSE_MS = 60_000;
const MIGRATE = "POST /nodes/{node}/qemu/{vmid}/migrate";

export class Rebalancer {
  readonly #deps: RebalancerDeps;
  #uneven = 0;

  constructor(deps: RebalancerDeps) {
    this.#deps = deps;
  }

  /** What moves would put right now. */
  plan(spec: PlanSpec, by: string): PlanRecord {
    const { records, view, policy, settings, clock } = this.#deps;
    const state = view.state();
    const at = clock.now();
    const since = at - settings.coolDownSeconds * 1000;
    const plans = records.collection(rebalancePlansDef).list();
    const moved = plans
      .flatMap(({ value }) => value.moves)
      .filter(({ doneAt }) => doneAt !== undefined && doneAt > since);
    // What failed by itself would fail by itself again; people may try.
    const failed = plans
      .filter(({ value }) => by === ITSELF && value.at > since)
      .flatMap(({ value }) => value.moves.filter(({ state: end }) => end === "failed"));
    const plan = planRebalance(state, policy, {
      maxMoves: spec.maxMoves ?? settings.maxMoves,
      threshold: spec.threshold ?? settings.threshold,
      margin: settings.margin,
      balance: spec.balance === true,
      resting: new Set(moved.map(({ guest }) => guest)),
      immovable: new Map([
        ...failed.map(({ guest }) => [guest, "a move of it failed a short while ago"] as const),
        ...[...state.guests()]
          .filter(({ request }) => request.kind !== "vm")
          .map(({ request }) => [request.id, "guests of its kind are not moved by plans"] as const),
      ]),
    });
    const moves = plan.moves.map((move): PlannedMove => ({ ...move, state: "pending" }));
    const isDone = moves.length === 0;
    return {
      ...plan,
      spec,
      moves,
      phase: isDone ? "Done" : "Proposed",
      ...(isDone ? { message: "there is nothing to move" } : {}),
      at,
      by,
    };
  }

  /** Until the signal aborts. */
  async run(calls: Pick<NodeCalls, "call">, signal: AbortSignal): Promise<void> {
    const { clock, records, settings, log } = this.#deps;
    let nextLook = 0;
    await everyDue(
      {
        clock,
        signal,
        watch: (changed) => records.collection(rebalancePlansDef).onChange(changed),
        waitMs: () => Math.max(1000, nextLook - clock.now()),
        failed: (err) =>
          log.error({ err: messageOf(err) }, "plans of moves could not be looked at; trying again"),
      },
      async () => {
        for (const { id } of this.#approved()) await this.#whileKept(id, calls, signal);
        if (clock.now() < nextLook) return;
        nextLook = clock.now() + settings.intervalSeconds * 1000;
        await this.look();
      },
    );
  }

  /** One round: figures, what is old, and a plan where the mode says so and none is open. */
  async look(): Promise<void> {
    const { records, view, policy, settings, figures, clock, newId } = this.#deps;
    const state = view.state();
    figures.violations = violationsOf(state, policy).length;
    figures.imbalance = imbalanceOf(state);
    this.#uneven = steadyRounds(this.#uneven, figures.imbalance, settings.threshold);
    const plans = records.collection(rebalancePlansDef);
    const isOld = (plan: PlanRecord | undefined): boolean =>
      plan !== undefined && isOutdated(plan, clock.now());
    const old = plans.list().filter(({ value }) => isOld(value));
    if (old.length > 0)
      await records.transact((tx) => {
        // One that was approved meanwhile stays.
        for (const { id } of old)
          if (isOld(tx.get(rebalancePlansDef, id)?.value)) tx.delete(rebalancePlansDef, id);
      });
    if (settings.mode === "off" || plans.list().some(({ value }) => isOpen(value, settings.mode))) return;
    const balance = this.#uneven >= settings.holdRounds;
    const plan = this.plan({ approved: settings.mode === "auto", balance }, ITSELF);
    if (plan.moves.length === 0) return;
    this.#uneven = 0;
    await records.transact((tx) => tx.put(rebalancePlansDef, `auto-${newId()}`.toLowerCase(), plan));
  }

  #approved(): readonly Entry<PlanRecord>[] {
    const plans = this.#deps.records.collection(rebalancePlansDef).list();
    return plans.filter(({ value }) => value.spec.approved === true && !isOver(value));
  }

  /** Nobody waits for the move of a plan that was deleted: other plans have their turn. */
  async #whileKept(id: string, calls: Pick<NodeCalls, "call">, signal: AbortSignal): Promise<void> {
    const gone = new AbortController();
    const stopWatching = this.#deps.records.collection(rebalancePlansDef).onChange((changed, entry) => {
      if (changed === id && entry === undefined) gone.abort(new Error(`plan '${id}' was deleted`));
    });
    try {
      await this.#carryOut(id, calls, AbortSignal.any([signal, gone.signal]));
    } catch (err) {
      if (!gone.signal.aborted || signal.aborted) throw err;
      this.#deps.log.info({ plan: id }, "a plan was deleted while it was carried out");
    } finally {
      stopWatching();
    }
  }

  async #carryOut(id: string, calls: Pick<NodeCalls, "call">, signal: AbortSignal): Promise<void> {
    const { records, clock, log } = this.#deps;
    const plan = (): PlanRecord | undefined => records.collection(rebalancePlansDef).get(id)?.value;
    const note = (at: number, change: Partial<PlannedMove>): Promise<void> =>
      this.#change(id, ({ moves, ...rest }) => ({
        ...rest,
        phase: "Running",
        moves: moves.map((move, index) => (index === at ? { ...move, ...change } : move)),
      }));
    for (const [at, move] of (plan()?.moves ?? []).entries()) {
      if (plan() === undefined) return;
      if (move.state !== "pending" && move.state !== "moving") continue;
      try {
        const task = move.task ?? (await this.#begin(move, calls, signal));
        if (task === undefined) {
          await note(at, { state: "skipped", message: `it is not on ${move.from} any more, or is gone` });
          continue;
        }
        await note(at, { state: "moving", task });
        await this.#ended(task, signal);
        if (task.includes(":hamigrate:")) await this.#movedByHa(move, signal);
        await note(at, { state: "done", doneAt: clock.now() });
      } catch (err) {
        if (signal.aborted) throw err;
        // What comes after it was planned with this move made.
        const message = messageOf(err);
        await note(at, { state: "failed", message });
        await this.#change(id, (found) => ({
          ...found,
          phase: "Failed",
          message: `${move.guest}: ${message}`,
        }));
        log.warn({ plan: id, guest: move.guest, err: message }, "a move of a plan failed");
        return;
      }
    }
    await this.#change(id, (found) => ({ ...found, phase: "Done" }));
  }

  /** UPID of the move; undefined = there is nothing to move any more. */
  async #begin(
    { guest, from, to }: PlannedMove,
    calls: Pick<NodeCalls, "call">,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { records, view, newId } = this.#deps;
    const vmid = /^vm\/(\d+)$/.exec(guest)?.[1];
    if (vmid === undefined || records.collection(guestCollection).get(vmid)?.value.node !== from)
      return undefined;
    await this.#requireWelcome(guest, to, signal);
    const runs = view.state().guest(guest)?.counts === true;
    const { data } = await calls.call(
      from,
      MIGRATE,
      { vmid, target: to, ...(runs ? { online: 1, "with-local-disks": 1 } : {}) },
      asSystem({ work: "rebalance", requestId: newId(), signal }),
    );
    if (typeof data === "string" && data.startsWith("UPID:")) return data;
    throw new AppError("internal.error", `node ${from} was asked to move ${guest} and named no task`);
  }

  /** Throws what extenders have against it, or why they cannot be asked. */
  async #requireWelcome(guest: string, node: string, signal: AbortSignal): Promise<void> {
    const { extend, view, policy } = this.#deps;
    const request = view.state().guest(guest)?.request;
    if (extend === undefined || request === undefined) return;
    const custom = await extend(request, [node], signal);
    // All else was asked when the plan was worked out.
    const { verdicts } = explainAnew(view.state(), request, { ...policy, filters: [], off: [], custom });
    const refusals = verdicts.find((verdict) => verdict.node === node)?.refusals ?? [];
    if (refusals.length === 0) return;
    const why = refusals.map((each) => each.why).join("; ");
    throw new AppError("capacity.exceeded", `node ${node} does not take it: ${why}`);
  }

  /** A node that is lost ends no task; its plan would stay the only one for ever. */
  async #ended(task: string, signal: AbortSignal): Promise<void> {
    const { records, board, clock } = this.#deps;
    const { node = "", pid = 0 } = taskFromUpid(task) ?? {};
    const end = (upid: string, until: AbortSignal): Promise<void> => taskEnd(records, upid, until);
    // What HA is told is a task of a server, whose machine need not be a node.
    if (isServerTask({ pid })) await end(task, signal);
    else await untilTaskEnd({ board, clock, taskEnd: end }, { node, upid: task, signal });
  }

  /** The task has told HA, which moves the guest in its own time, or not at all. */
  async #movedByHa({ guest, from }: PlannedMove, signal: AbortSignal): Promise<void> {
    const { records, clock } = this.#deps;
    const sid = guest.replace("/", ":");
    let heardOf = clock.now();
    while (records.collection(guestCollection).get(sid.slice(3))?.value.node === from) {
      const manager = records.collection(managerCollection).get(MANAGER_STATUS_ID)?.value;
      const service = manager?.services[sid];
      const isOnItsWay = service?.target !== undefined || service?.command !== undefined;
      if (isOnItsWay) heardOf = clock.now();
      else if (clock.now() - heardOf > HA_PAUSE_MS)
        throw new AppError("operation.failed", `HA did not move it; gpvectl ha explain ${sid} says why`);
      await clock.sleep(1000, signal);
    }
  }

  async #change(id: string, change: (plan: PlanRecord) => PlanRecord): Promise<void> {
    await this.#deps.records.transact((tx) => {
      const found = tx.get(rebalancePlansDef, id)?.value;
      if (found !== undefined) tx.put(rebalancePlansDef, id, change(found));
    });
  }
}

function isOver({ phase }: PlanRecord): boolean {
  return phase === "Done" || phase === "Failed";
}

function isOutdated(plan: PlanRecord, now: number): boolean {
  const ageMs = now - plan.at;
  if (isOver(plan)) return ageMs > KEPT_MS;
  return plan.by === ITSELF && !isBegun(plan) && ageMs > LAPSES_MS;
}

/** Whether another one of its own has to wait: plans that people keep, and never approve, are no reason to. */
function isOpen(plan: PlanRecord, mode: RebalanceSettings["mode"]): boolean {
  return !isOver(plan) && (isBegun(plan) || (mode === "plan" && plan.by === ITSELF));
}

/** Its moves are made, or will be in a moment. */
function isBegun({ phase, spec }: PlanRecord): boolean {
  return phase === "Running" || spec.approved === true;
}
