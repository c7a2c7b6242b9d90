import type { VmPhase } from "@gpve/contracts/v1/vm-phase.ts";
import type { StateMachine } from "./state-machine.ts";

export type VmEvent =
  | "CreateStarted"
  | "CreateCompleted"
  | "CreateFailed"
  | "StartRequested"
  | "QMPReady"
  | "StartFailed"
  | "StopRequested"
  | "StopCompleted"
  | "PauseRequested"
  | "ResumeRequested"
  | "RebootRequested"
  | "RebootCompleted"
  | "MigrateRequested"
  | "MigrateCompleted"
  | "MigrateFailed"
  | "SnapshotRequested"
  | "SnapshotCompleted"
  | "SnapshotFailed"
  | "StateReset"
  | "DeleteRequested";

/** The life of a virtual machine. Nobody stores a phase: it follows from the work under way and from what its node reports. */
export const vmPhases: StateMachine<VmPhase, VmEvent> = {
  phases: {
    Pending: "it was asked for; nothing of it is there",
    Creating: "its disks and its configuration are being made",
    Stopped: "it is there and does not run",
    Starting: "its QEMU is being started",
    Running: "its QEMU runs and its processors too",
    Stopping: "it was told to end, or has ended by itself",
    Paused: "its QEMU runs, its processors do not",
    Migrating: "it is moving to another node",
    Snapshotting: "a snapshot of it is being made",
    Rebooting: "it is being started anew",
    Deleting: "it and its disks are being removed",
    Failed: "the last thing it was told to do failed, and it does not run",
  },
  first: "Pending",
  last: "Deleting",
  transitions: [
    {
      from: "Pending",
      event: "CreateStarted",
      to: "Creating",
      when: "the permission, the quota and the VMID are granted",
      effect: "the VMID is taken",
    },
    {
      from: "Creating",
      event: "CreateCompleted",
      to: "Stopped",
      when: "disks and configuration are there",
      effect: "it is in lists; its node and its quota have it",
    },
    {
      from: "Creating",
      event: "CreateCompleted",
      to: "Starting",
      when: "the same, and it was to be started",
      effect: "the start is submitted",
    },
    {
      from: "Creating",
      event: "CreateFailed",
      to: "Failed",
      when: "a disk or the configuration could not be made, and what was there could not be taken back",
      effect:
        "event VMFailed with the reason; where all could be taken back, nothing is left to have a phase",
    },
    {
      from: "Stopped",
      event: "StartRequested",
      to: "Starting",
      when: "a user, the boot of the node or a restore asks",
      effect: "volumes are activated, QEMU is started",
    },
    {
      from: "Starting",
      event: "QMPReady",
      to: "Running",
      when: "QEMU's monitor answers",
      effect: "event VMStarted",
    },
    {
      from: "Starting",
      event: "StartFailed",
      to: "Failed",
      when: "QEMU could not be started, or ended at once",
      effect: "what was activated is given back; event VMFailed with the reason",
    },
    {
      from: "Running",
      event: "StopRequested",
      to: "Stopping",
      when: "a user asks, the guest switches itself off, or QEMU ends",
      effect: "ACPI's power button, or QEMU's end",
    },
    {
      from: "Paused",
      event: "StopRequested",
      to: "Stopping",
      when: "the same",
      effect: "the same",
    },
    {
      from: "Stopping",
      event: "StopCompleted",
      to: "Stopped",
      when: "QEMU has ended",
      effect: "volumes are deactivated; event VMStopped, or VMCrashed with the reason",
    },
    {
      from: "Running",
      event: "PauseRequested",
      to: "Paused",
      when: "a user asks",
      effect: "event VMPaused",
    },
    {
      from: "Paused",
      event: "ResumeRequested",
      to: "Running",
      when: "a user asks",
      effect: "event VMResumed",
    },
    {
      from: "Running",
      event: "RebootRequested",
      to: "Rebooting",
      when: "a user asks for a reboot or a reset",
      effect: "ACPI's power button and a new start, or a reset",
    },
    {
      from: "Rebooting",
      event: "RebootCompleted",
      to: "Running",
      when: "it runs again",
      effect: "event VMRebooted",
    },
    {
      from: "Running",
      event: "MigrateRequested",
      to: "Migrating",
      when: "a user asks, or its node is being emptied",
      effect: "memory is copied while it runs",
    },
    {
      from: "Migrating",
      event: "MigrateCompleted",
      to: "Running",
      when: "the other node has taken over",
      effect: "event VMMigrated",
    },
    {
      from: "Migrating",
      event: "MigrateFailed",
      to: "Failed",
      when: "it runs on neither node",
      effect: "event VMFailed with the reason",
    },
    {
      from: "Running",
      event: "SnapshotRequested",
      to: "Snapshotting",
      when: "a user asks",
      effect: "memory and disks are saved",
    },
    {
      from: "Snapshotting",
      event: "SnapshotCompleted",
      to: "Running",
      when: "it is saved, or could not be, and the VM runs on",
      effect: "event VMSnapshotted",
    },
    {
      from: "Snapshotting",
      event: "SnapshotFailed",
      to: "Failed",
      when: "it could not be saved, and the VM has ended",
      effect: "event VMFailed with the reason",
    },
    {
      from: "Failed",
      event: "StateReset",
      to: "Stopped",
      when: "a user says that it is seen to, or whatever failed was done again and went well",
      effect: "the failure is history",
    },
    {
      from: "Stopped",
      event: "DeleteRequested",
      to: "Deleting",
      when: "a user asks",
      effect: "disks and configuration are removed",
    },
    {
      from: "Failed",
      event: "DeleteRequested",
      to: "Deleting",
      when: "a user asks",
      effect: "the same",
    },
  ],
};
