// What is so about a VM, and why, in the words that Kubernetes made known: type, status, reason, message, since when.
import { given } from "@gpve/contracts/given.ts";
import type { Fields } from "@gpve/contracts/json-object.ts";
import type { NodeHealth } from "@gpve/domain/node/runtime.ts";
import { type ConditionClock, sinceOf } from "./node.ts";
import type { ShownPhase } from "../../phase/vm-phases.ts";

export function vmConditions(facts: {
  readonly shown: ShownPhase;
  readonly node: string;
  readonly health: NodeHealth | undefined;
  /** Keys that wait for the next start. */
  readonly pending: readonly string[];
  /** When the first of them came, or the last one went; else when it was made. */
  readonly pendingAt: number | undefined;
  readonly times: ConditionClock;
}): readonly Fields[] {
  const { shown, node, health = "unknown", pending, pendingAt, times } = facts;
  const { phase, since, last } = shown;
  const isReachable = health === "online";
  const reachable = health === "unknown" ? "Unknown" : yes(isReachable);
  return [
    {
      type: "Ready",
      status: phase === "Unknown" ? "Unknown" : yes(phase === "Running" && isReachable),
      reason: isReachable ? phase : "NodeNotReachable",
      lastTransitionTime: new Date(since).toISOString(),
    },
    {
      type: "NodeReachable",
      status: reachable,
      reason: isReachable ? "Reports" : "NoReports",
      ...(isReachable
        ? {}
        : { message: `node ${node} is ${health}; what is shown of it is what it said last` }),
      ...sinceOf(times, node, { type: "Ready", status: reachable }),
    },
    ...(last === undefined
      ? []
      : [
          {
            type: "OperationSucceeded",
            status: yes(last.ok === true),
            reason: last.type,
            ...given({ message: last.ok === true ? undefined : last.task.exitstatus }),
            lastTransitionTime: new Date(last.endedAt ?? 0).toISOString(),
          },
        ]),
    {
      type: "ChangesApplied",
      status: yes(pending.length === 0),
      reason: pending.length === 0 ? "NothingPending" : "WaitsForStart",
      ...(pending.length === 0 ? {} : { message: `the next start takes in ${pending.join(", ")}` }),
      ...(pendingAt === undefined ? {} : { lastTransitionTime: new Date(pendingAt).toISOString() }),
    },
  ];
}

function yes(is: boolean): "True" | "False" {
  return is ? "True" : "False";
}
