// Decides on the state of this moment and promises the place in one transaction. Every promise on a node raises its turn,
// which the transaction compares: of two servers that decide at once for one node, one looks again.
//
// A promise ends when the guest's record shows what came of it, when it is released, or with its time. What virtual clusters
// take is in their own records, which are written in that transaction: nothing is promised.
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { explainAnew, type Explanation } from "@gpve/domain/scheduler/explain.ts";
import type { ClusterState } from "@gpve/domain/scheduler/cluster-state.ts";
import type { PlacementRequest } from "@gpve/domain/scheduler/model.ts";
import type { CustomPlugin, Extend } from "@gpve/domain/scheduler/plugin.ts";
import type { Policy } from "@gpve/domain/scheduler/policy.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { KeyedQueue } from "@gpve/kit/keyed-queue.ts";
import type { Records, Tx } from "@gpve/store/records/port.ts";
import type { ClusterView } from "./cluster-view.ts";
import { PlacementQueue } from "./placement-queue.ts";
import { placementKey, placementsDef, type PlacementRecord } from "./placement-records.ts";
import { keptExplanation } from "./kept-explanation.ts";
import { refusalError } from "./refusal-error.ts";
import { takeTurns, type Turns, turnsOf } from "./placement-turns.ts";
import type { SchedulerFigures } from "./scheduler-figures.ts";

export interface PlacerDeps {
  readonly records: Records;
  readonly view: Pick<ClusterView, "state" | "onChange">;
  readonly policy: Policy;
  readonly extend: Extend | undefined;
  readonly clock: Pick<Clock, "now" | "after" | "monotonic">;
  readonly figures: SchedulerFigures;
  readonly log: Logger;
}

export interface PlaceTerms {
  readonly by: string;
  /** It runs as soon as it is made. */
  readonly starts?: boolean;
  /** How long its place is kept for it. */
  readonly keptMs: number;
  readonly signal: AbortSignal;
  /** Whether who asks may see nodes: the reasons are told by node. */
  readonly maySeeNodes?: boolean;
}

export interface Placed {
  readonly id: string;
  readonly node: string;
  readonly explanation: Explanation;
}

/** What is decided and written in one go. */
export interface Settling<D extends { readonly nodes: readonly string[] }, T> {
  readonly signal: AbortSignal;
  /** On the state of this moment, which it leaves as it was; throws what stands against it. */
  readonly decide: (state: ClusterState, policy: Policy) => D;
  /** `lost`: how often somebody else was quicker. */
  readonly commit: (tx: Tx, decided: D, lost: number) => T;
}

/** Who is beaten so often is told. */
const MOST_TRIES = 32;

export class Placer {
  readonly #deps: PlacerDeps;
  readonly #queue: PlacementQueue;
  /** Of one server they are settled one after the other: many at once would only beat each other. */
  readonly #settling = new KeyedQueue();
  readonly #stop: () => void;

  constructor(deps: PlacerDeps) {
    this.#deps = deps;
    this.#queue = new PlacementQueue(deps);
    this.#stop = deps.view.onChange(() => this.#queue.wake());
    deps.figures.queueDepth = () => this.#queue.depth;
  }

  /** Throws capacity.exceeded with the reasons when no node can take it, at once or after the time it may wait. */
  async place(request: PlacementRequest, terms: PlaceTerms): Promise<Placed> {
    const { rules } = request;
    const first = await this.#attempt(request, terms);
    if ("placed" in first) return first.placed;
    const waitMs = (rules.waitSeconds ?? 0) * 1000;
    if (waitMs <= 0) throw refused(request, first.explanation, terms);
    let last = first.explanation;
    return this.#queue.wait(
      async () => {
        const outcome = await this.#attempt(request, terms);
        if ("placed" in outcome) return outcome.placed;
        last = outcome.explanation;
        return undefined;
      },
      {
        priority: rules.priority ?? 0,
        waitMs,
        signal: terms.signal,
        gaveUp: () => refused(request, last, terms),
      },
    );
  }

  /** Gives the places back. */
  async release(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    await this.#deps.records.transact((tx) => {
      for (const id of ids) tx.delete(placementsDef, placementKey(id));
    });
  }

  placement(id: string): PlacementRecord | undefined {
    return this.#deps.records.collection(placementsDef).get(placementKey(id))?.value;
  }

  /** What would be decided now, where nodes are asked what `plugins` ask too; nothing is promised. */
  async preview(
    request: PlacementRequest,
    signal: AbortSignal,
    plugins: readonly CustomPlugin[] = [],
  ): Promise<Explanation> {
    await this.#deps.records.fresh({ signal });
    const policy = await this.policyFor(request, signal);
    return explainAnew(this.#deps.view.state(), request, {
      ...policy,
      custom: [...policy.custom, ...plugins],
    });
  }

  /** For what is written down with its places: decides, and commits unless somebody took a place on one of its nodes
   * meanwhile; then it decides anew. */
  async settle<D extends { readonly nodes: readonly string[] }, T>(
    request: PlacementRequest,
    terms: Settling<D, T>,
  ): Promise<T> {
    // Extenders may take their time: nobody else waits for them.
    const policy = await this.policyFor(request, terms.signal);
    return this.#settling.run("", () => this.#settle(request, policy, terms));
  }

  /** With what extenders say about this request. */
  async policyFor(request: PlacementRequest, signal: AbortSignal): Promise<Policy> {
    const { extend, policy, view, log } = this.#deps;
    if (extend === undefined) return policy;
    const state = view.state();
    const { verdicts } = explainAnew(state, request, policy);
    // Nobody is asked about nodes that are out of the question anyway.
    const left = verdicts.filter(({ refusals }) => refusals.length === 0).map(({ node }) => node);
    if (left.length === 0) return policy;
    try {
      return { ...policy, custom: [...policy.custom, ...(await extend(request, left, signal))] };
    } catch (err) {
      log.warn({ err: messageOf(err), request: request.id }, "an extender of the scheduler failed");
      throw err;
    }
  }

  stop(): void {
    this.#stop();
    this.#queue.stop();
  }

  async #settle<D extends { readonly nodes: readonly string[] }, T>(
    request: PlacementRequest,
    policy: Policy,
    { signal, decide, commit }: Settling<D, T>,
  ): Promise<T> {
    const { records, figures, clock } = this.#deps;
    const began = clock.monotonic();
    const took = (): number => (clock.monotonic() - began) / 1000;
    for (let lost = 0; lost < MOST_TRIES; lost++) {
      await records.fresh({ signal });
      let decided: D;
      try {
        // From here to the transaction nothing else runs: state and turns are of one moment.
        decided = decide(this.#deps.view.state(), policy);
      } catch (err) {
        figures.count(isAppError(err) ? "unschedulable" : "error", took());
        throw err;
      }
      const turns = turnsOf(records, decided.nodes);
      const outcome = await records.transact(
        (tx) => (takeTurns(tx, turns) ? { committed: commit(tx, decided, lost) } : undefined),
        { signal },
      );
      if (outcome !== undefined) {
        figures.count("scheduled", took());
        return outcome.committed;
      }
      figures.count("conflict", 0);
    }
    throw beaten(request);
  }

  async #attempt(
    request: PlacementRequest,
    terms: PlaceTerms,
  ): Promise<{ readonly placed: Placed } | { readonly explanation: Explanation }> {
    const { records, figures, clock } = this.#deps;
    const began = clock.monotonic();
    try {
      for (let lost = 0; lost < MOST_TRIES; lost++) {
        await records.fresh({ signal: terms.signal });
        const policy = await this.policyFor(request, terms.signal);
        // From here to the transaction nothing else runs: state and turns are of one moment.
        const explanation = explainAnew(this.#deps.view.state(), request, policy);
        const { node } = explanation;
        if (node === undefined) {
          figures.count("unschedulable", (clock.monotonic() - began) / 1000);
          return { explanation };
        }
        const turns = turnsOf(records, [node]);
        if (await this.#commit(request, terms, { node, explanation, turns, lost })) {
          figures.count("scheduled", (clock.monotonic() - began) / 1000);
          return { placed: { id: request.id, node, explanation } };
        }
        figures.count("conflict", 0);
      }
    } catch (err) {
      figures.count("error", (clock.monotonic() - began) / 1000);
      throw err;
    }
    throw beaten(request);
  }

  #commit(
    request: PlacementRequest,
    { by, keptMs, starts = true, signal }: PlaceTerms,
    decided: {
      readonly node: string;
      readonly explanation: Explanation;
      readonly turns: Turns;
      readonly lost: number;
    },
  ): Promise<boolean> {
    const { records, clock } = this.#deps;
    const { node, explanation, turns, lost } = decided;
    const at = clock.now();
    return records.transact(
      (tx) => {
        if (!takeTurns(tx, turns)) return false;
        tx.put(placementsDef, placementKey(request.id), {
          request,
          node,
          at,
          until: at + keptMs,
          starts,
          by,
          lost,
          explanation: keptExplanation(explanation),
        });
        return true;
      },
      { signal },
    );
  }
}

function beaten({ id }: PlacementRequest): AppError {
  return new AppError(
    "resource.busy",
    `${id} was placed ${MOST_TRIES} times, and somebody else was quicker each time; try again`,
  );
}

function refused(
  request: PlacementRequest,
  explanation: Explanation,
  { maySeeNodes }: Pick<PlaceTerms, "maySeeNodes">,
): AppError {
  return refusalError(`no node can take ${request.id}`, explanation, {
    maySeeNodes: maySeeNodes === true,
    data: { request: request.id },
  });
}
