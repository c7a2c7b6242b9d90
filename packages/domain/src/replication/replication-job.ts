// Replication jobs: a VM whose disks only its node has, and the other node that keeps a copy of them.
import { given } from "@gpve/contracts/given.ts";
import { parseCalendarEvent, type CalendarEvent } from "../calendar/calendar-event.ts";
import { parameterError, refused } from "../request/failures.ts";
import { unknownShape } from "../record/collection.ts";

export interface ReplicationOptions {
  readonly schedule?: string;
  /** MB/s */
  readonly rate?: number;
  readonly disable?: boolean;
  readonly comment?: string;
  /** It is being removed: with the copy, or without it. */
  readonly remove_job?: "local" | "full";
}

export interface ReplicationJob extends ReplicationOptions {
  /** "100-0" */
  readonly id: string;
  readonly guest: number;
  readonly jobnum: number;
  readonly target: string;
  /** Volumes that the target had as the VM's own before another node took over: the copy takes their place. */
  readonly replaces?: readonly string[];
  /** Seconds: nothing before that is due. */
  readonly since: number;
}

export const DEFAULT_CALENDAR = "*/15";
const REMOVABLE = new Set(["schedule", "rate", "disable", "comment", "remove_job", "source"]);

export const replicationCollection = {
  prefix: "/gpve/replication/jobs/",
  decode: decodeJob,
};

export function newReplicationJob(
  id: string,
  target: string,
  options: ReplicationOptions,
  nowSeconds: number,
): ReplicationJob {
  const { guest, jobnum } = parseJobId(id);
  requireCalendar(options.schedule);
  return { id, guest, jobnum, target, ...options, since: nowSeconds };
}

export function changedReplicationJob(
  job: ReplicationJob,
  options: ReplicationOptions,
  remove: readonly string[],
  nowSeconds: number,
): ReplicationJob {
  if (remove.includes("target")) throw refused("unable to delete required option 'target'");
  const unknown = remove.find((key) => !REMOVABLE.has(key));
  if (unknown !== undefined) throw refused(`no such option '${unknown}'`);
  requireCalendar(options.schedule);
  const kept = Object.fromEntries(Object.entries(job).filter(([key]) => !remove.includes(key)));
  const next = { ...(kept as unknown as ReplicationJob), ...options };
  const moved = next.schedule !== job.schedule || next.disable !== job.disable;
  return moved ? { ...next, since: nowSeconds } : next;
}

/** As the API shows it. */
export function shownReplicationJob(job: ReplicationJob, source?: string): Record<string, unknown> {
  const { replaces: _replaces, since: _since, ...shown } = job;
  return { ...shown, type: "local", ...given({ source }) };
}

export function calendarOfReplication({ schedule = DEFAULT_CALENDAR }: ReplicationJob): CalendarEvent {
  const parsed = parseCalendarEvent(schedule);
  if (!parsed.ok) throw refused(`unable to parse calendar event '${schedule}' - ${parsed.error}`);
  return parsed.event;
}

function parseJobId(id: string): { readonly guest: number; readonly jobnum: number } {
  const [guest = "", jobnum = ""] = id.split("-");
  return { guest: Number(guest), jobnum: Number(jobnum) };
}

function requireCalendar(schedule: string | undefined): void {
  if (schedule === undefined) return;
  const parsed = parseCalendarEvent(schedule);
  if (!parsed.ok) throw parameterError({ schedule: `unable to parse calendar event - ${parsed.error}` });
}

function decodeJob(json: unknown): ReplicationJob {
  const job = (json ?? {}) as Partial<ReplicationJob>;
  if (typeof job.id !== "string" || typeof job.guest !== "number" || typeof job.target !== "string")
    throw unknownShape("a replication job in the store");
  return job as ReplicationJob;
}
