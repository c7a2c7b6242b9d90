// Steps in a VM's life as events, with the reason where one is known.
import { given } from "@gpve/contracts/given.ts";
import type { VmPhase } from "@gpve/contracts/v1/vm-phase.ts";
import type { EventInput } from "../v1/events.ts";
import type { PhaseStep } from "./vm-phases.ts";

/** undefined = nothing worth telling. */
export function lifeStepEvent(
  { vmid, node, from, to, last, ownEnd }: PhaseStep,
  namespace?: string,
): EventInput | undefined {
  if (from === undefined) return undefined;
  const event = (reason: string, message: string, type: EventInput["type"] = "Normal"): EventInput => ({
    type,
    reason,
    object: { kind: "VirtualMachine", name: vmid, ...given({ namespace }) },
    node,
    message: `VM ${vmid} ${message}`,
  });
  const by = last === undefined ? "" : ` (${last.type} by ${last.task.authid})`;
  switch (to) {
    case "Running": {
      const failed = last?.ok === false ? NOT_DONE[from] : undefined;
      if (failed !== undefined)
        return event(failed[0], `${failed[1]}${by}: ${last?.task.exitstatus ?? ""}`, "Warning");
      return RUNNING[from] && event(RUNNING[from][0], `${RUNNING[from][1]}${by}`);
    }
    case "Paused":
      return event("VMPaused", `is paused${by}`);
    case "Stopped":
      if (from !== "Stopping") return undefined;
      if (ownEnd === undefined) return event("VMStopped", `has stopped${by}`);
      return ownEnd.isCrash
        ? event("VMCrashed", `has crashed: ${ownEnd.why}`, "Warning")
        : event("VMStopped", `has stopped by itself: ${ownEnd.why}`);
    case "Failed":
      return event(
        "VMFailed",
        `failed: ${last?.type ?? ""} ${last?.task.exitstatus ?? ""}`.trim(),
        "Warning",
      );
    case "Pending":
    case "Creating":
    case "Starting":
    case "Stopping":
    case "Rebooting":
    case "Migrating":
    case "Snapshotting":
    case "Deleting":
      return undefined;
  }
}

const RUNNING: Partial<Record<VmPhase, readonly [string, string]>> = {
  Starting: ["VMStarted", "runs"],
  Paused: ["VMResumed", "goes on"],
  Rebooting: ["VMRebooted", "was started anew"],
  Migrating: ["VMMigrated", "has moved"],
  Snapshotting: ["VMSnapshotted", "was saved and goes on"],
};

/** Where the work that it comes from has failed: it runs as before. */
const NOT_DONE: Partial<Record<VmPhase, readonly [string, string]>> = {
  Rebooting: ["VMRebootFailed", "was not started anew and goes on"],
  Migrating: ["VMMigrationFailed", "has not moved and goes on"],
  Snapshotting: ["VMSnapshotFailed", "was not saved and goes on"],
};

/** The same on every server that sees the step. */
export function lifeStepOnce({ vmid, to, last, ownEnd }: PhaseStep): {
  readonly at: number;
  readonly text: string;
} {
  const cause = ownEnd === undefined ? (last?.task.upid ?? "") : String(ownEnd.at);
  return { at: ownEnd?.at ?? last?.endedAt ?? 0, text: `${vmid} ${to} ${cause}` };
}
