// What deleted clusters have on nodes that were away then goes when those are back, as what another node has taken over does.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { AgentRoute, AskedOf } from "@gpve/contracts/agent/agent-routes.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { type LeftCluster, leftClusterCollection } from "@gpve/domain/vcluster/standby/left-cluster.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../../node/collections.ts";

const REMOVE = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}" as const satisfies AgentRoute;

export interface SweepLeftDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Pick<Clock, "monotonic">;
  readonly log: Pick<Logger, "warn">;
  readonly newRequestId: () => string;
  /** Resolves when the node has done it. */
  readonly remove: (node: string, asked: AskedOf<typeof REMOVE>, signal: AbortSignal) => Promise<void>;
}

const AGAIN_MS = 5_000;

export class SweepLeft {
  readonly #deps: SweepLeftDeps;
  readonly #busy = new Set<string>();
  readonly #notBefore = new Map<string, number>();

  constructor(deps: SweepLeftDeps) {
    this.#deps = deps;
  }

  async look(signal: AbortSignal): Promise<void> {
    const all = this.#deps.records.collection(leftClusterCollection).list();
    await Promise.all(all.map(({ id, value }) => this.#one(id, value, signal)));
  }

  async #one(id: string, left: LeftCluster, signal: AbortSignal): Promise<void> {
    const { records, board, clock, log, newRequestId, remove } = this.#deps;
    const { node, key: vcluster, tenant } = left;
    const view = board.get(node);
    // One that is no member any more will not be back with it.
    const isMember = view !== undefined || records.collection(nodeRecords).get(node) !== undefined;
    if (isMember && view?.health !== "online") return;
    if (this.#busy.has(id) || (this.#notBefore.get(id) ?? 0) > clock.monotonic()) return;
    this.#notBefore.delete(id);
    this.#busy.add(id);
    try {
      // What volumes had there was not there to be judged.
      const asked = { vcluster, tenant, keepVolumes: true, requestId: newRequestId() };
      if (isMember) await remove(node, asked, signal);
      await records.transact((tx) => {
        if (tx.get(leftClusterCollection, id) !== undefined) tx.delete(leftClusterCollection, id);
      });
    } catch (err) {
      if (signal.aborted) return;
      this.#notBefore.set(id, clock.monotonic() + AGAIN_MS);
      const about = { resource: `vcluster/${vcluster}`, node, err: messageOf(err) };
      log.warn(about, "what a deleted virtual cluster has there stays for now");
    } finally {
      this.#busy.delete(id);
    }
  }
}
