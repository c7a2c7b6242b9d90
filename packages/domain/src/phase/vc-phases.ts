import type { VcPhase } from "@gpve/contracts/v1/vc-phase.ts";
import type { StateMachine } from "./state-machine.ts";

export type VcEvent =
  | "Allocated"
  | "ControlPlaneStarting"
  | "HealthChecked"
  | "UpgradeRequested"
  | "UpgradeCompleted"
  | "ScaleRequested"
  | "ScaleCompleted"
  | "ScaleUndone"
  | "MigrateRequested"
  | "MigrateCompleted"
  | "StopRequested"
  | "StopCompleted"
  | "StartRequested"
  | "WorkFailed"
  | "RetryRequested"
  | "DeleteRequested";

const failed = (from: VcPhase, when: string) =>
  ({
    from,
    event: "WorkFailed",
    to: "Failed",
    when,
    effect: "the reason is kept in its conditions; what runs is left for a look",
  }) as const;

const gone = (from: VcPhase, when: string) =>
  ({
    from,
    event: "DeleteRequested",
    to: "Terminating",
    when,
    effect: "processes, network, cgroups, store and keys are removed",
  }) as const;

/** The life of a virtual cluster. The node that has it keeps the phase, and every change of it is checked by this table. */
export const vcPhases: StateMachine<VcPhase, VcEvent> = {
  phases: {
    Pending: "it was asked for and a node was chosen; nothing of it is there",
    Provisioning: "directories, keys and network are being made",
    Initializing: "store, API server, controllers and scheduler are being started",
    Running: "its API answers, or would when it is woken",
    Upgrading: "it is going to another minor",
    Scaling: "workers come or go",
    Migrating: "its control plane or a worker is moving to another node",
    Stopping: "its processes are being stopped",
    Stopped: "nothing of it runs, and nobody who connects wakes it",
    Failed: "the last work on it failed",
    Terminating: "it is being removed",
  },
  first: "Pending",
  last: "Terminating",
  transitions: [
    {
      from: "Pending",
      event: "Allocated",
      to: "Provisioning",
      when: "permission, quota, version and a node are there",
      effect: "keys and network are made",
    },
    {
      from: "Provisioning",
      event: "ControlPlaneStarting",
      to: "Initializing",
      when: "keys and network are there",
      effect: "store, then API server, then controllers and scheduler are started",
    },
    {
      from: "Initializing",
      event: "HealthChecked",
      to: "Running",
      when: "`/readyz` answers and the first objects are there",
      effect: "kubeconfigs are given out",
    },
    {
      from: "Running",
      event: "UpgradeRequested",
      to: "Upgrading",
      when: "a user asks",
      effect: "its store is saved, then the control plane and then workers get the new version",
    },
    {
      from: "Upgrading",
      event: "UpgradeCompleted",
      to: "Running",
      when: "the new version answers, or the old one again",
      effect: "the backup stays",
    },
    {
      from: "Running",
      event: "ScaleRequested",
      to: "Scaling",
      when: "a user asks",
      effect: "workers are made, or drained and removed",
    },
    {
      from: "Scaling",
      event: "ScaleCompleted",
      to: "Running",
      when: "there are as many workers as asked for",
      effect: "none",
    },
    {
      from: "Scaling",
      event: "ScaleUndone",
      to: "Running",
      when: "a worker that was to come did not get ready, or one that was to go did not",
      effect:
        "those that came go again, and one that did not go is used as before; their room is as many as there are, and the reason is kept in its conditions",
    },
    {
      from: "Running",
      event: "MigrateRequested",
      to: "Migrating",
      when: "a user asks, or its node is being emptied",
      effect: "it is stopped here and started there",
    },
    {
      from: "Migrating",
      event: "MigrateCompleted",
      to: "Running",
      when: "it answers on the other node",
      effect: "its endpoint leads there",
    },
    {
      from: "Running",
      event: "StopRequested",
      to: "Stopping",
      when: "a user asks",
      effect: "scheduler and controllers end, then the API server, then the store",
    },
    {
      from: "Stopping",
      event: "StopCompleted",
      to: "Stopped",
      when: "no process of it is left",
      effect: "none",
    },
    {
      from: "Stopped",
      event: "StartRequested",
      to: "Running",
      when: "a user asks, and `/readyz` answers",
      effect: "as at the first start, with what is there",
    },
    {
      from: "Stopping",
      event: "WorkFailed",
      to: "Stopping",
      when: "a process of it does not end",
      effect: "the reason is kept in its conditions; a user stops it again, or deletes it",
    },
    gone("Running", "a user asks"),
    gone("Stopping", "a user asks"),
    gone("Stopped", "a user asks"),
    failed("Provisioning", "keys or network could not be made"),
    failed("Initializing", "a part of the control plane did not start or did not get ready"),
    failed("Upgrading", "neither the new nor the old version could be started"),
    failed("Scaling", "it was ended in between, or workers that did not come do not go again either"),
    failed("Migrating", "it answers on neither node"),
    {
      from: "Failed",
      event: "RetryRequested",
      to: "Pending",
      when: "a user asks for a retry",
      effect: "it goes through its steps again, with what is there",
    },
    {
      from: "Migrating",
      event: "RetryRequested",
      to: "Pending",
      when: "its move ended without an end, it is still this node's, and a user asks for a retry",
      effect: "it goes through its steps again, with what is there",
    },
    gone("Migrating", "no server moves it any more, and a user asks"),
    gone("Failed", "a user asks for its deletion, by force"),
  ],
};

/** Where an event leads; undefined = it is none of that phase. */
export function nextVcPhase(from: VcPhase, event: VcEvent): VcPhase | undefined {
  return vcPhases.transitions.find((edge) => edge.from === from && edge.event === event)?.to;
}
