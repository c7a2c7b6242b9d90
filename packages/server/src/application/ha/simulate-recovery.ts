// What HA would do if nodes were lost, by what this server knows: the manager's own environment, of which nothing is committed.
import { isInMaintenance, managerCollection } from "@gpve/domain/ha/collections.ts";
import { planRecovery, type PlannedRecovery } from "@gpve/domain/ha/recovery-plan.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { HaVerdict } from "@gpve/domain/scheduler/node-loss.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";
import { nodeRecords } from "../node/collections.ts";
import { ManagerEnvironment } from "./manager-environment.ts";

export interface SimulateRecoveryDeps {
  readonly records: Records;
  readonly board: NodeBoard;
  readonly clock: Clock;
  readonly log: Logger;
}

/** By guest (`vm/100`), in the order in which they would have their turn. */
export function simulateRecovery(
  deps: SimulateRecoveryDeps,
  lost: readonly string[],
): ReadonlyMap<string, HaVerdict> {
  const { records, board } = deps;
  const nodes = records
    .collection(nodeRecords)
    .list()
    .map(({ id }) => id);
  const manager = records.collection(managerCollection);
  const online = nodes.filter(
    (name) => !lost.includes(name) && board.get(name)?.health === "online" && !isInMaintenance(name, manager),
  );
  const environment = new ManagerEnvironment({ ...deps, node: "", holder: "", nodes: () => nodes });
  try {
    const whyNoRoom = (sid: string, node: string): string | undefined => environment.whyNoRoom(sid, node);
    const plan = planRecovery(environment.view, { lost, online, whyNoRoom });
    return new Map(plan.map((each) => [each.sid.replace(":", "/"), verdictOf(each)]));
  } finally {
    environment.close();
  }
}

function verdictOf({ to, left, refusals = [] }: PlannedRecovery): HaVerdict {
  if (to !== undefined) return { to };
  return left === undefined ? { refusals } : { left };
}
