// What is shown of the standby of a cluster's store, and of a cluster that goes on from one.
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { boundOf, standbyRefusal } from "@gpve/domain/vcluster/standby/standby.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { runtimeOn } from "../replicas/replica-nodes.ts";

export interface StandbyStatus {
  readonly standby?: Fields;
  readonly recovered?: Fields;
  /** undefined = there is nothing to say of one. */
  readonly condition?: Fields;
}

export function standbyStatus(board: NodeBoard, record: VirtualClusterRecord): StandbyStatus {
  const { node, standby, recovered } = record;
  const told = runtimeOn(board, node, keyOf(record))?.standby;
  const isTold = told !== undefined && told.generation === standby?.generation;
  return {
    ...(standby === undefined
      ? {}
      : {
          standby: {
            node: standby.node,
            inSync: standby.inSync,
            ...(isTold ? { revision: told.revision, confirmedRevision: told.confirmed } : {}),
          },
        }),
    ...(recovered === undefined
      ? {}
      : {
          recovered: {
            from: recovered.from,
            at: new Date(recovered.at).toISOString(),
            mayHaveLostSeconds: recovered.lossMs / 1000,
          },
        }),
    ...conditionOf(board, record),
  };
}

function conditionOf(board: NodeBoard, record: VirtualClusterRecord): Pick<StandbyStatus, "condition"> {
  const { node, spec, standby } = record;
  const refusal = standbyRefusal(spec);
  if (refusal?.reason === "HasReplicas") return {};
  const shown = (
    status: "True" | "False",
    reason: string,
    message: string,
  ): Pick<StandbyStatus, "condition"> => ({
    condition: {
      type: "StandbyInSync",
      status,
      reason,
      message,
      ...(standby === undefined ? {} : { lastTransitionTime: new Date(standby.since).toISOString() }),
    },
  });
  if (refusal !== undefined) return shown("False", refusal.reason, refusal.message);
  if (standby === undefined) {
    const alone = board.list().length < 2;
    return alone
      ? shown(
          "False",
          "OneNode",
          `there is no node beside ${node}: with it, the cluster's objects are lost; make backups`,
        )
      : shown("False", "NoStandby", `no node follows its store yet: with node ${node}, its objects are lost`);
  }
  const bound = boundOf(spec);
  if (standby.inSync)
    return shown(
      "True",
      "InSync",
      bound === 0
        ? `node ${standby.node} has every write before it is answered`
        : `node ${standby.node} is behind by what was answered in the last ${bound / 1000} s at most`,
    );
  return standby.mode === "solo"
    ? shown(
        "False",
        "StandbyAway",
        `node ${standby.node} does not confirm: the cluster goes on without it, and what is written now is on node ${node} alone`,
      )
    : shown("False", "CatchingUp", `node ${standby.node} gets what the store has`);
}
