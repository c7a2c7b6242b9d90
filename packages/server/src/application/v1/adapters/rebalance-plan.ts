import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { rebalancePlanKind } from "@gpve/contracts/v1/kinds/rebalance-plan.ts";
import type { CollectionDef, Entry } from "@gpve/store/records/port.ts";
import type { Rebalancer } from "../../scheduler/rebalancer.ts";
import { rebalancePlansDef, type PlanRecord, type PlanSpec } from "../../scheduler/rebalance-records.ts";
import { byName } from "../adapter.ts";
import { sameJson } from "../merge-patch.ts";
import type { KindAdapter, RawObject } from "../adapter.ts";

export interface RebalancePlanDeps {
  /** Absent: plans are only shown. */
  readonly rebalancer: Pick<Rebalancer, "plan">;
}

/** Plans of moves: worked out when they are made; approving is all that changes of one. */
export function rebalancePlanAdapter({ rebalancer }: RebalancePlanDeps): KindAdapter {
  return {
    kind: rebalancePlanKind,
    collections: [rebalancePlansDef as CollectionDef<unknown>],
    list: (reader) => reader.list(rebalancePlansDef).map(raw).toSorted(byName),
    get: (reader, name) => {
      const entry = reader.get(rebalancePlansDef, name);
      return entry === undefined ? undefined : raw(entry);
    },
    onChange: (records, changed) => records.collection(rebalancePlansDef).onChange((id) => changed([id])),
    write: {
      put: (tx, { name, spec, ctx }) => {
        const found = tx.get(rebalancePlansDef, name)?.value;
        const wanted = spec as PlanSpec;
        if (found === undefined) {
          tx.put(rebalancePlansDef, name, rebalancer.plan(wanted, ctx.actor?.authid ?? ""));
          return;
        }
        requireApproval(name, found, wanted);
        tx.put(rebalancePlansDef, name, { ...found, spec: wanted });
      },
      remove: (tx, { name, force }) => {
        if (!force && tx.get(rebalancePlansDef, name)?.value.phase === "Running")
          throw new AppError(
            "resource.busy",
            `plan '${name}' is being carried out: cancel the task of its move first; force=1 forgets the plan and lets the task go on`,
          );
        tx.delete(rebalancePlansDef, name);
      },
    },
  };
}

function requireApproval(name: string, found: PlanRecord, wanted: PlanSpec): void {
  const { approved: before = false, ...rest } = found.spec;
  const { approved: after = false, ...others } = wanted;
  if (!sameJson(rest, others))
    throw new AppError("request.invalid", `plan '${name}' was worked out with its options: make another`);
  if (before !== after && found.phase !== "Proposed")
    throw new AppError(
      "object.conflict",
      `plan '${name}' is ${found.phase} and cannot be approved or taken back`,
    );
}

function raw({ id, value, revision, createRevision, version }: Entry<PlanRecord>): RawObject {
  const { spec, phase, message, violations, moves, unsolved, imbalance, by, at } = value;
  return {
    name: id,
    spec: { ...spec },
    status: {
      phase,
      ...given({ message }),
      violations: violations.map((each) => ({ ...each })),
      moves: moves.map(({ doneAt: _doneAt, ...move }) => ({ ...move })),
      unsolved: unsolved.map((each) => ({ ...each })),
      imbalance: { ...imbalance },
      moveCount: moves.length,
      madeBy: by,
    },
    revision,
    createRevision,
    generation: version,
    createdAt: at,
  };
}
