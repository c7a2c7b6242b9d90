// Since when each condition of a node is as it is, the same at every server and after a restart. A server writes what it
// saw change itself, once: two that see a node differently do not correct each other without end.
import { messageOf } from "@gpve/contracts/errors.ts";
import {
  type ConditionStatus,
  conditionTimesCollection,
  nodeConditionsId,
  settleTimes,
  type StatusSince,
} from "@gpve/domain/condition/condition-times.ts";
import { nodeConditions } from "@gpve/domain/node/node-conditions.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../node/collections.ts";

export interface NodeConditionDeps {
  readonly records: Records;
  readonly board: {
    list(): readonly NodeView[];
    onChange(listener: (view: NodeView) => void): () => void;
  };
  readonly clock: Pick<Clock, "now">;
  readonly log: Logger;
}

export class NodeConditionTimes {
  readonly #deps: NodeConditionDeps;
  readonly #startedAt: number;
  readonly #stop: () => void;
  /** As this server sees them, by node and type. */
  readonly #seen = new Map<string, Map<string, StatusSince>>();
  /** What the store does not have yet of that. */
  readonly #unwritten = new Map<string, Map<string, StatusSince>>();
  #work = Promise.resolve();

  constructor(deps: NodeConditionDeps) {
    this.#deps = deps;
    this.#startedAt = deps.clock.now();
    this.#stop = deps.board.onChange((view) => this.#look(view));
    for (const view of deps.board.list()) this.#look(view);
  }

  /** Milliseconds since the epoch. */
  since(node: string, type: string, status: ConditionStatus): number {
    const { records } = this.#deps;
    const kept = records.collection(conditionTimesCollection).get(nodeConditionsId(node))?.value[type];
    if (kept?.status === status) return kept.since;
    const seen = this.#seen.get(node)?.get(type);
    if (seen?.status === status) return seen.since;
    // Nobody has told this server about it yet.
    return Math.max(this.#startedAt, records.collection(nodeRecords).get(node)?.value.joinedAt ?? 0);
  }

  async close(): Promise<void> {
    this.#stop();
    await this.#work;
  }

  #look(view: NodeView): void {
    // What this server has not heard yet is no change of the node's.
    if (view.health === "unknown") return;
    const seen = rowOf(this.#seen, view.node);
    const unwritten = rowOf(this.#unwritten, view.node);
    for (const { type, status } of nodeConditions(view)) {
      if (seen.get(type)?.status === status) continue;
      const now = { status, since: this.#deps.clock.now() };
      seen.set(type, now);
      unwritten.set(type, now);
    }
    if (unwritten.size === 0) return;
    this.#work = this.#work
      .then(() => this.#write(view.node, unwritten))
      .catch((err: unknown) => {
        // Tried again with the next report.
        this.#deps.log.warn({ node: view.node, err: messageOf(err) }, "times of conditions were not kept");
      });
    background(this.#deps.log, "times of conditions", this.#work);
  }

  async #write(node: string, unwritten: Map<string, StatusSince>): Promise<void> {
    const times = Object.fromEntries(unwritten);
    if (unwritten.size === 0) return;
    await this.#deps.records.transact((tx) => {
      if (tx.get(nodeRecords, node) === undefined) return;
      const known = tx.get(conditionTimesCollection, nodeConditionsId(node))?.value ?? {};
      const next = settleTimes(known, times);
      if (next !== known) tx.put(conditionTimesCollection, nodeConditionsId(node), next);
    });
    for (const [type, time] of Object.entries(times))
      if (unwritten.get(type) === time) unwritten.delete(type);
  }
}

function rowOf(rows: Map<string, Map<string, StatusSince>>, node: string): Map<string, StatusSince> {
  const row = rows.get(node) ?? new Map<string, StatusSince>();
  rows.set(node, row);
  return row;
}
