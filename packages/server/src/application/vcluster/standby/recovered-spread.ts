// A cluster with workers on several nodes that goes on from its standby: who has which part of it then, and how the nodes with
// workers hear of it. Those that are away hear when they are back.
import type { AgentRoute, AskedOf, DataOf } from "@gpve/contracts/agent/agent-routes.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { overlayOn, recoveredSpread } from "@gpve/domain/vcluster/overlay.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { overlayAddress } from "../spread-cluster.ts";

export interface TellDeps {
  readonly board: NodeBoard;
  readonly newRequestId: () => string;
  readonly ask: <R extends AgentRoute>(
    node: string,
    route: R,
    asked: AskedOf<R>,
  ) => Promise<{ readonly data: DataOf<R> }>;
  readonly taskEnd: (upid: string) => Promise<void>;
  readonly change: (
    record: VirtualClusterRecord,
    change: (now: VirtualClusterRecord) => VirtualClusterRecord,
  ) => Promise<void>;
}

/** undefined = it is on one node. */
export function spreadAfter(
  board: NodeBoard,
  { node: lost, spread }: VirtualClusterRecord,
  to: string,
): VirtualClusterRecord["spread"] {
  if (spread === undefined) return undefined;
  const end = overlayAddress({ node: to, address: board.get(to)?.address ?? "" });
  return { network: spread.network, ...recoveredSpread(spread, lost, end) };
}

/** All at once: one that does not answer keeps nobody from hearing of it. */
export async function tellOthers(deps: TellDeps, record: VirtualClusterRecord): Promise<void> {
  const untold = record.recovered?.untold ?? [];
  const ends = await Promise.allSettled(untold.map((node) => tell(deps, record, node)));
  for (const end of ends) if (end.status === "rejected") throw end.reason;
}

async function tell(deps: TellDeps, record: VirtualClusterRecord, node: string): Promise<void> {
  const { tenant, spread } = record;
  const overlay = overlayOn(spread, node);
  const view = deps.board.get(node);
  if (view !== undefined && view.health !== "online") return;
  if (view !== undefined && overlay !== undefined) {
    const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/overlay" as const;
    const asked = { vcluster: keyOf(record), tenant, overlay, requestId: deps.newRequestId() };
    await deps.taskEnd((await deps.ask(node, route, asked)).data);
  }
  await deps.change(record, (now) => {
    if (now.recovered === undefined) return now;
    const { untold = [], ...recovered } = now.recovered;
    const left = untold.filter((each) => each !== node);
    return { ...now, recovered: { ...recovered, ...(left.length === 0 ? {} : { untold: left }) } };
  });
}
