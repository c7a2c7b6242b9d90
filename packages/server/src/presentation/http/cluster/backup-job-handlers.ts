import type { JobOptions } from "@gpve/domain/backup/backup-job.ts";
import { parseCalendarEvent } from "@gpve/domain/calendar/calendar-event.ts";
import { nextEvent } from "@gpve/domain/calendar/next-event.ts";
import type { ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import { splitList } from "@gpve/domain/schema/list.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { BackupJobs } from "../../../application/backup-job/backup-jobs.ts";

export interface BackupJobHandlerDeps {
  readonly jobs: BackupJobs;
  readonly clock: Clock;
  readonly zone: () => ZoneOffset;
}

export function createBackupJobHandlers({ jobs, clock, zone }: BackupJobHandlerDeps): PveHandlers {
  return {
    "GET /cluster/backup": () => jobs.list(),
    "POST /cluster/backup": (params, ctx) => jobs.create(given(params), ctx),
    "GET /cluster/backup/{id}": ({ id }) => jobs.get(id),
    "PUT /cluster/backup/{id}": ({ id, delete: remove, ...options }, ctx) =>
      jobs.update(id, given(options), splitList(remove ?? ""), ctx),
    "DELETE /cluster/backup/{id}": ({ id }) => jobs.remove(id),
    "GET /cluster/backup/{id}/included_volumes": ({ id }, ctx) => jobs.includedVolumes(id, ctx),
    "GET /cluster/backup-info/not-backed-up": (_params, ctx) => jobs.notBackedUp(ctx),
    "GET /cluster/jobs/schedule-analyze": ({ schedule, iterations, starttime }) => {
      const parsed = parseCalendarEvent(schedule);
      const rows: { timestamp: number; utc: string }[] = [];
      let at: number | undefined = starttime ?? Math.floor(clock.now() / 1000);
      for (let count = 0; parsed.ok && count < (iterations ?? 10); count++) {
        at = nextEvent(parsed.event, at, zone());
        if (at === undefined) break;
        rows.push({ timestamp: at, utc: utcText(at) });
      }
      return rows;
    },
  };
}

function given(params: Readonly<Record<string, unknown>>): JobOptions {
  return Object.fromEntries(
    Object.entries(params).filter((pair): pair is [string, JobOptions[string]] => pair[1] !== undefined),
  );
}

/** As Perl prints a moment: `Thu Jan  1 00:00:00 1970`. */
function utcText(seconds: number): string {
  const [weekday = "", day = "", month = "", year = "", time = ""] = new Date(seconds * 1000)
    .toUTCString()
    .replace(",", "")
    .split(" ");
  return `${weekday} ${month} ${String(Number(day)).padStart(2)} ${time} ${year}`;
}
