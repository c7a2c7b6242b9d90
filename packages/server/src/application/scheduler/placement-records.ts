// Where placements lie in the cluster store: rules of guests, what was decided and what is promised. Agents see none of it.
import { objectRecords } from "@gpve/domain/record/collection.ts";
import type { Explanation } from "@gpve/domain/scheduler/explain.ts";
import type { PlacementRequest, SchedulingRules } from "@gpve/domain/scheduler/model.ts";
import type { CollectionDef } from "@gpve/store/records/port.ts";

/** What spec.scheduling of a guest says about its place. By VMID. */
export interface SchedulingRecord {
  readonly rules: SchedulingRules;
  /** Milliseconds. */
  readonly at: number;
}

export interface PlacementRecord {
  readonly request: PlacementRequest;
  readonly node: string;
  /** Milliseconds. */
  readonly at: number;
  /** Until then its place is taken, whether it is seen there or not; absent = until it is released. */
  readonly until?: number;
  /** It will run as soon as it is made. */
  readonly starts: boolean;
  /** Who asked. */
  readonly by: string;
  /** How often somebody else took the place first. */
  readonly lost: number;
  /** Why here and not there, as it was then. */
  readonly explanation: Explanation;
}

/** Rises with every promise on a node: whoever decided before it has to look again. */
export interface PlacementTurn {
  readonly turn: number;
}

export const schedulingDef: CollectionDef<SchedulingRecord> = objectRecords("/gpve/scheduling/");
/** By the request's id, in one segment. */
export const placementsDef: CollectionDef<PlacementRecord> = objectRecords("/gpve/placements/");
/** By node. */
export const placementTurnsDef: CollectionDef<PlacementTurn> = objectRecords("/gpve/placement-turns/");

export function placementKey(id: string): string {
  return encodeURIComponent(id);
}
