// The rows and filters of GET /nodes/{node}/tasks.
import { ownsTask, splitAuthid, statusTypeOf } from "./task.ts";
import type { Upid } from "./upid.ts";
import type { Task } from "./task.ts";

export interface TaskQuery {
  readonly userfilter?: string;
  readonly typefilter?: string;
  readonly vmid?: number;
  readonly errors?: boolean;
  readonly since?: number;
  readonly until?: number;
  readonly statusfilter?: string;
  readonly source?: "archive" | "active" | "all";
  readonly start?: number;
  readonly limit?: number;
}

export interface TaskViewer {
  readonly authid: string;
  /** Has Sys.Audit on the node: sees everybody's tasks. */
  readonly auditor: boolean;
}

export interface TaskRow extends Upid {
  readonly upid: string;
  readonly tokenid?: string;
  readonly endtime?: number;
  readonly status?: string;
}

export const DEFAULT_TASK_LIMIT = 50;

export function taskRow(task: Task): TaskRow {
  const { authid, exitstatus, ...rest } = task;
  const status = exitstatus === undefined ? {} : { status: exitstatus };
  return { ...rest, ...splitAuthid(authid), ...status };
}

/** Active tasks first, then finished ones, each newest first. `total` counts all matches, whatever the page. */
export function listTasks(
  tasks: Iterable<Task>,
  query: TaskQuery,
  viewer: TaskViewer,
): { readonly rows: readonly TaskRow[]; readonly total: number } {
  const source = query.source ?? "archive";
  const matches = [...tasks].filter((task) => matchesQuery(task, query) && mayList(task, viewer));
  const active = source === "archive" ? [] : matches.filter((task) => task.endtime === undefined);
  const archived = source === "active" ? [] : matches.filter((task) => task.endtime !== undefined);
  const ordered = [...active, ...archived].toSorted(newestFirst);
  const start = query.start ?? 0;
  const rows = ordered
    .slice(start, start + (query.limit ?? DEFAULT_TASK_LIMIT))
    .map((task) => (task.endtime === undefined ? { ...taskRow(task), status: "RUNNING" } : taskRow(task)));
  return { rows, total: ordered.length };
}

export function matchesQuery(task: Task, query: TaskQuery): boolean {
  const { userfilter, typefilter, vmid, since, until } = query;
  if (userfilter !== undefined && userfilter !== "") {
    const user = splitAuthid(task.authid).user.toLowerCase();
    if (!user.includes(userfilter.toLowerCase())) return false;
  }
  if (typefilter !== undefined && typefilter !== "" && task.type !== typefilter) return false;
  if (vmid !== undefined && task.id !== String(vmid)) return false;
  if (since !== undefined && task.starttime < since) return false;
  if (until !== undefined && task.starttime > until) return false;
  return wantedStatus(query).has(statusTypeOf(task.exitstatus));
}

/** `errors` beats `statusfilter`, as in PVE, and hides only what ended well. */
function wantedStatus(query: TaskQuery): ReadonlySet<string> {
  if (query.errors === true) return new Set(["warning", "error", "unknown"]);
  if (query.statusfilter === undefined) return new Set(["ok", "warning", "error", "unknown"]);
  const words = query.statusfilter.split(/[,;\s\0]+/).filter((word) => word !== "");
  return new Set(words.map((word) => word.toLowerCase()));
}

function mayList(task: Task, viewer: TaskViewer): boolean {
  return viewer.auditor || ownsTask(viewer.authid, task);
}

type Ordered = Pick<Task, "starttime" | "endtime" | "pid">;

/** What runs first. */
export function newestFirst(a: Ordered, b: Ordered): number {
  const running = Number.POSITIVE_INFINITY;
  const [endA, endB] = [a.endtime ?? running, b.endtime ?? running];
  if (endA !== endB) return endB > endA ? 1 : -1;
  return b.starttime - a.starttime || b.pid - a.pid;
}
