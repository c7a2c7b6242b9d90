// When a cluster that sleeps has to be awake again though nobody asks for it: for its next CronJob, or as its policy says.
import { parseCalendarEvent } from "../../calendar/calendar-event.ts";
import { nextCron, parseCron } from "../../calendar/cron-calendar.ts";
import { nextEvent } from "../../calendar/next-event.ts";
import { UTC_OFFSET, zoneOffset, type ZoneOffset } from "../../calendar/time-zone.ts";
import type { SleepPolicy } from "./sleep-policy.ts";

export interface NextWake {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly why: string;
}

interface CronJob {
  readonly metadata?: {
    readonly name?: unknown;
    readonly namespace?: unknown;
    readonly creationTimestamp?: unknown;
  };
  readonly spec?: { readonly schedule?: unknown; readonly timeZone?: unknown; readonly suspend?: unknown };
  readonly status?: { readonly lastScheduleTime?: unknown };
}

/** Of a list of CronJobs as the API answers; undefined = none comes. */
export function nextJob(list: unknown, now: number): NextWake | undefined {
  const { items } = (list ?? {}) as { readonly items?: unknown };
  const jobs = Array.isArray(items) ? (items as readonly CronJob[]) : [];
  return earliest(jobs.flatMap((job) => comesNext(job, now) ?? []));
}

/** By the policy's own calendar, in the zone of the node. */
export function nextScheduled(
  event: string | undefined,
  after: number,
  zone: ZoneOffset,
): number | undefined {
  const parsed = event === undefined ? undefined : parseCalendarEvent(event);
  if (parsed?.ok !== true) return undefined;
  const at = nextEvent(parsed.event, after / 1_000, zone);
  return at === undefined ? undefined : at * 1_000;
}

export function nextWake(
  jobs: unknown,
  { wakeAt }: SleepPolicy,
  { now, zone }: { readonly now: number; readonly zone: ZoneOffset },
): NextWake | undefined {
  const scheduled = nextScheduled(wakeAt, now, zone);
  const job = nextJob(jobs, now);
  return earliest([
    ...(job === undefined ? [] : [job]),
    ...(scheduled === undefined ? [] : [{ at: scheduled, why: `its schedule '${wakeAt ?? ""}'` }]),
  ]);
}

function comesNext({ metadata, spec, status }: CronJob, now: number): NextWake | undefined {
  if (spec?.suspend === true || typeof spec?.schedule !== "string") return undefined;
  const schedule = parseCron(spec.schedule);
  if (schedule === undefined) return undefined;
  const since = secondsOf(status?.lastScheduleTime) ?? secondsOf(metadata?.creationTimestamp) ?? now / 1_000;
  // Controllers have no zone of their own.
  const zone = typeof spec.timeZone === "string" ? zoneOffset(spec.timeZone) : UTC_OFFSET;
  const at = nextCron(schedule, now / 1_000, { zone, since });
  const named = `CronJob ${String(metadata?.namespace)}/${String(metadata?.name)}`;
  return at === undefined ? undefined : { at: at * 1_000, why: named };
}

function secondsOf(text: unknown): number | undefined {
  const at = typeof text === "string" ? Date.parse(text) : Number.NaN;
  return Number.isNaN(at) ? undefined : at / 1_000;
}

function earliest(wakes: readonly NextWake[]): NextWake | undefined {
  return wakes.toSorted((a, b) => a.at - b.at)[0];
}
