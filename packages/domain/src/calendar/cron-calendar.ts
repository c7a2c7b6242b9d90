// What Kubernetes calls schedules: those of CronJobs, as calendar events: five fields, or a word such as `@daily`, or `@every 1h30m`.
import type { CalendarEvent } from "./calendar-event.ts";
import type { EventValue } from "./event-values.ts";
import { nextEvent } from "./next-event.ts";
import type { ZoneOffset } from "./time-zone.ts";

export type CronCalendar =
  /** Whichever comes first. */
  { readonly events: readonly CalendarEvent[] } | { readonly everySeconds: number };

interface Field {
  readonly first: number;
  readonly last: number;
  readonly names?: readonly string[];
}

interface ReadField {
  readonly values: readonly EventValue[];
  readonly isAny: boolean;
}

const MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split(" ");
const DAYS = "sun mon tue wed thu fri sat".split(" ");
const FIELDS: readonly Field[] = [
  { first: 0, last: 59 },
  { first: 0, last: 23 },
  { first: 1, last: 31 },
  { first: 1, last: 12, names: MONTHS },
  { first: 0, last: 6, names: DAYS },
];
const WORDS: Readonly<Record<string, string>> = {
  "@yearly": "0 0 1 1 *",
  "@annually": "0 0 1 1 *",
  "@monthly": "0 0 1 * *",
  "@weekly": "0 0 * * 0",
  "@daily": "0 0 * * *",
  "@midnight": "0 0 * * *",
  "@hourly": "0 * * * *",
};
const UNITS: Readonly<Record<string, number>> = { h: 3_600, m: 60, s: 1 };

/** undefined = Kubernetes does not take it either. */
export function parseCron(text: string): CronCalendar | undefined {
  const every = /^@every ((?:\d+[hms])+)$/.exec(text.trim())?.[1];
  if (every !== undefined) {
    const parts = [...every.matchAll(/(\d+)([hms])/g)];
    const seconds = parts.reduce((sum, [, count, unit = ""]) => sum + Number(count) * (UNITS[unit] ?? 0), 0);
    return seconds > 0 ? { everySeconds: seconds } : undefined;
  }
  const words = (WORDS[text.trim()] ?? text.trim()).split(/\s+/);
  if (words.length !== FIELDS.length) return undefined;
  const read = words.map((word, at) => readField(word, FIELDS[at] ?? { first: 0, last: 0 }));
  const [minute, hour, day, month, weekday] = read;
  if (!minute || !hour || !day || !month || !weekday) return undefined;
  const base = { utc: false, year: [], second: [{ start: 0 }] } as const;
  const time = { ...base, minute: minute.values, hour: hour.values, month: month.values };
  const none: ReadonlySet<number> = new Set();
  const days = weekday.isAny ? none : mondayFirst(weekday.values);
  // Where both are said, either will do.
  return !day.isAny && !weekday.isAny
    ? {
        events: [
          { ...time, day: day.values, days: none },
          { ...time, day: [], days },
        ],
      }
    : { events: [{ ...time, day: day.values, days }] };
}

/** In seconds since 1970; `since`: when it came last, or was made, from which intervals are counted. */
export function nextCron(
  calendar: CronCalendar,
  last: number,
  { zone, since }: { readonly zone: ZoneOffset; readonly since: number },
): number | undefined {
  if ("everySeconds" in calendar) {
    const { everySeconds } = calendar;
    return since + (Math.floor(Math.max(0, last - since) / everySeconds) + 1) * everySeconds;
  }
  const found = calendar.events.flatMap((event) => nextEvent(event, last, zone) ?? []);
  return found.length === 0 ? undefined : Math.min(...found);
}

function readField(text: string, field: Field): ReadField | undefined {
  const values: EventValue[] = [];
  let isAny = false;
  for (const each of text.toLowerCase().split(",")) {
    const [, range = "", , step] = /^([^/]+)(\/([1-9]\d{0,3}))?$/.exec(each) ?? [];
    const isAll = range === "*" || range === "?";
    const [from, to, rest] = isAll ? [String(field.first), String(field.last)] : range.split("-");
    const start = numberOf(from, field);
    const end = to === undefined ? undefined : numberOf(to, field);
    if (start === undefined || rest !== undefined || (to !== undefined && end === undefined))
      return undefined;
    if (end !== undefined && end < start) return undefined;
    if (isAll && (step === undefined || step === "1")) isAny = true;
    // A lone number with a step goes on to the last one.
    const until = end ?? (step === undefined ? start : field.last);
    values.push({ start, end: until, step: Number(step ?? 1) });
  }
  return isAny ? { values: [], isAny } : { values, isAny };
}

function numberOf(text: string | undefined, { first, last, names = [] }: Field): number | undefined {
  const named = names.indexOf(text ?? "");
  const value = named >= 0 ? named + first : /^\d{1,2}$/.test(text ?? "") ? Number(text) : Number.NaN;
  return value >= first && value <= last ? value : undefined;
}

/** Cron's week begins on Sunday. */
function mondayFirst(values: readonly EventValue[]): ReadonlySet<number> {
  const days = new Set<number>();
  for (const { start, end = start, step = 1 } of values)
    for (let day = start; day <= end; day += step) days.add((day + 6) % 7);
  return days;
}
