// Plans of moves in the cluster store.
import type { Move, RebalancePlan } from "@gpve/domain/scheduler/rebalance.ts";
import type { CollectionDef } from "@gpve/store/records/port.ts";
import { unknownShape } from "@gpve/domain/record/collection.ts";

export interface PlannedMove extends Move {
  readonly state: "pending" | "moving" | "done" | "failed" | "skipped";
  readonly task?: string;
  readonly message?: string;
  /** Milliseconds, when it was done. */
  readonly doneAt?: number;
}

export interface PlanSpec {
  readonly approved?: boolean;
  readonly balance?: boolean;
  readonly maxMoves?: number;
  readonly threshold?: number;
}

export interface PlanRecord extends Omit<RebalancePlan, "moves"> {
  readonly spec: PlanSpec;
  readonly moves: readonly PlannedMove[];
  readonly phase: "Proposed" | "Running" | "Done" | "Failed";
  readonly message?: string;
  /** Milliseconds. */
  readonly at: number;
  readonly by: string;
}

export const rebalancePlansDef: CollectionDef<PlanRecord> = {
  prefix: "/gpve/rebalance-plans/",
  decode: (json) => {
    if (typeof json === "object" && json !== null && Array.isArray((json as Partial<PlanRecord>).moves))
      return json as PlanRecord;
    throw unknownShape("a plan of moves");
  },
};
