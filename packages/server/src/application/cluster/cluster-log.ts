// GET /cluster/log: what happened lately, newest first, put together from events and tasks as PVE words them.
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import type { Task } from "@gpve/domain/task/task.ts";
import type { EventRecord } from "../v1/events.ts";
import type { Entry } from "@gpve/store/records/port.ts";

export interface ClusterLogSources {
  readonly events: () => readonly Entry<EventRecord>[];
  readonly tasks: () => readonly Task[];
  readonly localNode: string;
}

/** Who has Sys.Syslog on / sees everything, others what they did themselves. */
export interface ClusterLogViewer {
  readonly actor: Pick<Actor, "userid"> | undefined;
  readonly access: Pick<AccessView, "has">;
}

export interface LogRow {
  readonly uid: string;
  readonly time: number;
  readonly pri: number;
  readonly tag: string;
  readonly pid: number;
  readonly node: string;
  readonly user: string;
  readonly msg: string;
}

const PRIORITY = { warning: 4, info: 6 };

export function clusterLog(
  sources: ClusterLogSources,
  viewer: ClusterLogViewer,
  max: number,
): readonly LogRow[] {
  const mayAudit = viewer.access.has("/", ["Sys.Syslog"]);
  const rows = [
    ...sources.events().map(({ id, value }) => eventRow(id, value, sources.localNode)),
    ...sources.tasks().flatMap(taskRows),
  ];
  return rows
    .filter((row) => mayAudit || row.user === viewer.actor?.userid)
    .toSorted((a, b) => b.time - a.time || (a.uid < b.uid ? 1 : -1))
    .slice(0, max);
}

function eventRow(id: string, event: EventRecord, localNode: string): LogRow {
  const times = event.count > 1 ? ` (${event.count} times)` : "";
  return {
    uid: id,
    time: Math.floor(event.lastAt / 1000),
    pri: event.type === "Warning" ? PRIORITY.warning : PRIORITY.info,
    tag: event.reason,
    pid: 0,
    node: event.node ?? localNode,
    user: event.object.kind === "User" ? event.object.name : "root@pam",
    msg: `${event.message}${times}`,
  };
}

function taskRows(task: Task): LogRow[] {
  const base = { pid: task.pid, tag: "pvedaemon", node: task.node, user: task.authid };
  const started = {
    ...base,
    uid: `${task.upid}a`,
    time: task.starttime,
    pri: PRIORITY.info,
    msg: `starting task ${task.upid}`,
  };
  if (task.endtime === undefined) return [started];
  const pri = task.exitstatus === "OK" ? PRIORITY.info : PRIORITY.warning;
  return [
    started,
    {
      ...base,
      uid: `${task.upid}b`,
      time: task.endtime,
      pri,
      msg: `end task ${task.upid} ${task.exitstatus ?? ""}`,
    },
  ];
}
