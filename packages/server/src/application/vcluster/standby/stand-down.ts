// The etcd of a cluster is to be moved, exchanged or set back as one node has it: before that it goes on alone. As everywhere, what
// its record says comes first: from then on the cluster cannot go on from its standby.
import { AppError } from "@gpve/contracts/errors.ts";
import { moveCollection, moveId } from "@gpve/domain/guest/guest-move.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { standbyLineId } from "@gpve/domain/vcluster/standby/standby.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { asSystem } from "../../node/as-system.ts";
import type { NodeCalls } from "../../node/call-agent.ts";
import { runtimeOn } from "../replicas/replica-nodes.ts";

export interface StandDownDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly calls: Pick<NodeCalls, "call">;
  readonly clock: Clock;
}

/** Resolves when its etcd has no second member; of other stores, and where there is none, at once. */
export type StandDown = (key: string, asked: { requestId: string; signal: AbortSignal }) => Promise<void>;

const LOOK_MS = 500;
const MOST_MS = 60_000;

export function standDown(deps: StandDownDeps): StandDown {
  return async (key, { requestId, signal }) => {
    const { records, calls, clock } = deps;
    const record = await records.transact((tx) => {
      const now = tx.get(vclusterCollection, key)?.value;
      const { standby } = now ?? {};
      if (now?.spec.backingStore !== "etcd" || standby === undefined || standby.of !== now.node)
        return undefined;
      const note = moveId(0, standbyLineId(key, standby.generation));
      if (tx.get(moveCollection, note) !== undefined) tx.delete(moveCollection, note);
      const generation = Math.max(clock.now(), standby.generation + 1);
      const since = standby.inSync ? clock.now() : standby.since;
      const alone = { ...standby, generation, mode: "solo", inSync: false, since } as const;
      tx.put(vclusterCollection, key, { ...now, standby: alone });
      return { ...now, standby: alone };
    });
    if (record?.standby === undefined) return;
    const { generation } = record.standby;
    const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/standby" as const;
    const words = { vcluster: key, tenant: record.tenant, generation, mode: "solo", boundMs: 0 } as const;
    await calls.call(record.node, route, words, asSystem({ work: "vcluster-standby", requestId, signal }));
    const until = clock.monotonic() + MOST_MS;
    while (!isAlone(deps.board, key, record, generation)) {
      if (clock.monotonic() > until)
        throw new AppError(
          "request.timeout",
          `the etcd of virtual cluster '${record.name}' has a standby, and does not go on alone within ${MOST_MS / 1000} s, which it must for this: try again when the cluster answers`,
        );
      await clock.sleep(LOOK_MS, signal);
    }
  };
}

/** One that does not run begins that way. */
function isAlone(board: NodeBoard, key: string, { node }: VirtualClusterRecord, generation: number): boolean {
  const runtime = runtimeOn(board, node, key);
  if (runtime === undefined || runtime.power === "cold") return true;
  return runtime.standby?.generation === generation && !runtime.standby.isJoined;
}
