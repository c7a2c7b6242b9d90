// Which happenings become events, and in which words.
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { statusTypeOf } from "@gpve/domain/task/task.ts";
import type { Task } from "@gpve/domain/task/task.ts";
import { taskOfRecord, type TaskRecord } from "@gpve/domain/task/task-record.ts";
import type { Collection } from "@gpve/store/records/port.ts";
import { type ClusterOf, ClusterSteps } from "../vcluster/cluster-events.ts";
import { lifeStepEvent, lifeStepOnce } from "../phase/phase-events.ts";
import type { PhaseStep } from "../phase/vm-phases.ts";
import type { EventInput, RecordEvent } from "./events.ts";

/** Servers notice the same change of a node's health within this time of each other. */
const SAME_HEALTH_MS = 60_000;

/** What a server listens to. Returns the unsubscribe. */
export function recordHappenings(sources: {
  readonly onNodeChange: (listener: (view: NodeView, previous: NodeView | undefined) => void) => () => void;
  readonly onTaskEnd: (listener: (task: Task) => void) => () => void;
  readonly onPhaseStep: (listener: (step: PhaseStep) => void) => () => void;
  readonly clusterOf: ClusterOf;
  /** The tenant that a VM is in. */
  readonly tenantOfVm: (vmid: string) => string | undefined;
  readonly now: () => number;
  readonly recordEvent: RecordEvent;
}): () => void {
  const { recordEvent } = sources;
  const clusters = new ClusterSteps(sources.clusterOf);
  const stops = [
    sources.onNodeChange((view, previous) => {
      for (const { event: step, once } of clusters.of(view, sources.now())) recordEvent(step, { once });
      for (const { event: end, once } of disownedEndEvents(view, previous)) recordEvent(end, { once });
      const event = nodeHealthEvent(view, previous);
      if (event === undefined) return;
      const at = Math.floor(sources.now() / SAME_HEALTH_MS) * SAME_HEALTH_MS;
      recordEvent(event, { once: { at, text: `${view.node} ${view.health}` } });
    }),
    sources.onTaskEnd((task) => {
      const event = taskEndEvent(task);
      if (event !== undefined)
        recordEvent(event, { once: { at: (task.endtime ?? 0) * 1000, text: task.upid } });
    }),
    sources.onPhaseStep((step) => {
      const event = lifeStepEvent(step, sources.tenantOfVm(step.vmid));
      if (event !== undefined) recordEvent(event, { once: lifeStepOnce(step) });
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

/** Each task of which a record tells, once, when it has ended. */
export function taskEnds(
  tasks: Pick<Collection<TaskRecord>, "onChange">,
): (listener: (task: Task) => void) => () => void {
  return (listener) =>
    tasks.onChange((_id, entry, previous) => {
      if (entry?.value.endtime === undefined || previous?.value.endtime !== undefined) return;
      const task = taskOfRecord(entry.value);
      if (task !== undefined) listener(task);
    });
}

/** `audited`: what the audit log is told of a request. */
export function recordFailedLogin(
  audited:
    | {
        readonly resource: string;
        readonly statusCode: number;
        readonly user: string;
        readonly sourceIP: string;
      }
    | undefined,
  recordEvent: RecordEvent,
): void {
  if (audited?.resource !== "/access/ticket" || audited.statusCode !== 401) return;
  recordEvent(loginFailedEvent(audited.user, audited.sourceIP));
}

/** undefined = nothing worth telling: the first report after a start, or no change of health. */
export function nodeHealthEvent(view: NodeView, previous: NodeView | undefined): EventInput | undefined {
  if (previous === undefined || previous.health === view.health) return undefined;
  const { node } = view;
  const object = { kind: "Node", name: node };
  switch (view.health) {
    case "online":
      return { type: "Normal", reason: "NodeOnline", object, node, message: `node ${node} is online` };
    case "offline":
      return {
        type: "Warning",
        reason: "NodeOffline",
        object,
        node,
        message: `node ${node} does not report any more; its guests go on running`,
      };
    case "unknown":
      return {
        type: "Warning",
        reason: "NodeUnknown",
        object,
        node,
        message: `the state of node ${node} is not known`,
      };
  }
}

/** Guests that a node has ended because another has them; reports tell of each end several times. */
export function disownedEndEvents(
  { node, report }: NodeView,
  previous: NodeView | undefined,
): readonly { readonly event: EventInput; readonly once: { readonly at: number; readonly text: string } }[] {
  if (report === previous?.report) return [];
  const known = previous?.report?.ends ?? [];
  return (report?.ends ?? []).flatMap(({ vmid, at, owner }) => {
    if (owner === undefined || known.some((end) => end.vmid === vmid && end.at === at)) return [];
    const event: EventInput = {
      type: "Warning",
      reason: "VMEndedNotOwned",
      object: { kind: "VirtualMachine", name: String(vmid) },
      node,
      message: `VM ${vmid} still ran on node ${node}, which had been cut off; node ${owner} has it now, so it was ended there`,
    };
    return [{ event, once: { at, text: `${vmid} ${node} not owned` } }];
  });
}

/** undefined = it has not ended, or ended well: tasks are listed elsewhere, failures are news. */
export function taskEndEvent(task: Task): EventInput | undefined {
  if (task.exitstatus === undefined) return undefined;
  const outcome = statusTypeOf(task.exitstatus);
  if (outcome === "ok") return undefined;
  const about = task.id === "" ? task.type : `${task.type} ${task.id}`;
  return {
    type: "Warning",
    reason: outcome === "warning" ? "TaskWarnings" : "TaskFailed",
    object: { kind: "Task", name: task.upid },
    node: task.node,
    message: `${about}: ${task.exitstatus}`,
  };
}

export function loginFailedEvent(userid: string, clientAddress: string): EventInput {
  return {
    type: "Warning",
    reason: "LoginFailed",
    object: { kind: "User", name: userid.slice(0, 64) },
    message: `a login as ${JSON.stringify(userid.slice(0, 64))} from ${clientAddress} failed`,
  };
}
