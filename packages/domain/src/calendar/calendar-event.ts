// Calendar events as PVE reads them: `[days] [date] [time] [UTC]`, or one word such as `daily`. Close to systemd's, but
// not the same: days may be ranges over Sunday, a lone number is minutes, seconds are allowed.
import { given } from "@gpve/contracts/given.ts";
import type { EventValue, EventValues } from "./event-values.ts";

export interface CalendarEvent {
  /** Counted in UTC instead of the zone of the node. */
  readonly utc: boolean;
  /** Monday = 0; empty = every day. */
  readonly days: ReadonlySet<number>;
  readonly year: EventValues;
  readonly month: EventValues;
  readonly day: EventValues;
  readonly hour: EventValues;
  readonly minute: EventValues;
  readonly second: EventValues;
}

export type ParsedEvent =
  | { readonly ok: true; readonly event: CalendarEvent }
  | { readonly ok: false; readonly error: string };

type Fields = Omit<CalendarEvent, "utc">;
type Part<T> = { readonly value: T; readonly rest: string } | Stopped;
interface Stopped {
  readonly at: string;
  readonly why: string;
}

const DAY_NAMES = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const ZERO: EventValues = [{ start: 0 }];
const ANY: Fields = {
  days: new Set(),
  year: [],
  month: [],
  day: [],
  hour: [],
  minute: [],
  second: ZERO,
};
const HOURLY: Fields = { ...ANY, minute: ZERO };
const DAILY: Fields = { ...HOURLY, hour: ZERO };
const MONTHLY: Fields = { ...DAILY, day: [{ start: 1 }] };
const YEARLY: Fields = { ...MONTHLY, month: [{ start: 1 }] };
const HALF_YEARLY: Fields = { ...MONTHLY, month: [{ start: 1 }, { start: 7 }] };
const WORDS: ReadonlyMap<string, Fields> = new Map([
  ["minutely", ANY],
  ["hourly", HOURLY],
  ["daily", DAILY],
  ["weekly", { ...DAILY, days: new Set([0]) }],
  ["monthly", MONTHLY],
  ["quarterly", { ...MONTHLY, month: [1, 4, 7, 10].map((start) => ({ start })) }],
  ["semiannually", HALF_YEARLY],
  ["semi-annually", HALF_YEARLY],
  ["yearly", YEARLY],
  ["annually", YEARLY],
]);

export function parseCalendarEvent(text: string): ParsedEvent {
  const utc = text.endsWith("UTC");
  const spec = utc ? text.slice(0, -3).replace(/ +$/, "") : text;
  const word = WORDS.get(spec);
  if (word !== undefined) return { ok: true, event: { ...word, utc } };
  const fields = parseFields(spec);
  if ("at" in fields) {
    return { ok: false, error: `unable to parse calendar event at '${fields.at}' - ${fields.why}` };
  }
  return { ok: true, event: { ...fields, utc } };
}

function parseFields(spec: string): Fields | Stopped {
  let rest = spec;
  let days: ReadonlySet<number> = new Set();
  let seen = false;
  if (/^[a-z]/i.test(rest)) {
    const found = parseDays(rest);
    if ("at" in found) return found;
    ({ value: days } = found);
    rest = found.rest.trimStart();
    seen = true;
  }
  const date = parseDate(rest);
  if (!("at" in date)) {
    rest = date.rest.trimStart();
    seen = true;
  }
  const time = parseTime(rest);
  if (!("at" in time)) {
    ({ rest } = time);
    seen = true;
  }
  if (!seen) return context(rest, "date or time specification");
  if (rest !== "") return { at: rest, why: "Nom(Eof)" };
  return {
    ...DAILY,
    days,
    ...("at" in date ? {} : date.value),
    ...("at" in time ? {} : time.value),
  };
}

function parseDays(text: string): Part<ReadonlySet<number>> {
  const days = new Set<number>();
  let rest = text;
  for (let first = true; first || rest.startsWith(","); first = false) {
    const range = parseDayRange(first ? rest : rest.slice(1));
    if ("at" in range) {
      if (first) return range;
      break;
    }
    for (const day of range.value) days.add(day);
    ({ rest } = range);
  }
  return { value: days, rest };
}

function parseDayRange(text: string): Part<readonly number[]> {
  const from = parseDay(text);
  if ("at" in from) return from;
  const to = from.rest.startsWith("..") ? parseDay(from.rest.slice(2)) : undefined;
  if (to === undefined || "at" in to) return { value: [from.value], rest: from.rest };
  // "fri..mon" goes over Sunday.
  const length = ((to.value - from.value + 7) % 7) + 1;
  return { value: Array.from({ length }, (_, at) => (from.value + at) % 7), rest: to.rest };
}

function parseDay(text: string): Part<number> {
  const name = /^[a-z]+/i.exec(text)?.[0];
  if (name === undefined) return { at: text, why: "Nom(Alpha)" };
  const lower = name.toLowerCase();
  const day = DAY_NAMES.findIndex((full) => full === lower || full.slice(0, 3) === lower);
  return day < 0 ? context(name, "weekday") : { value: day, rest: text.slice(name.length) };
}

function parseDate(text: string): Part<Pick<Fields, "year" | "month" | "day">> {
  const year = parseValues(text, 0, 2200);
  const month = after(year, "-", (rest) => parseValues(rest, 1, 13));
  const day = after(month, "-", (rest) => parseValues(rest, 1, 32));
  if (!("at" in year) && !("at" in month) && !("at" in day)) {
    return { value: { year: year.value, month: month.value, day: day.value }, rest: day.rest };
  }
  const onlyMonth = parseValues(text, 1, 13);
  const monthDay = after(onlyMonth, "-", (rest) => parseValues(rest, 1, 32));
  if ("at" in onlyMonth) return onlyMonth;
  if ("at" in monthDay) return monthDay;
  return { value: { year: [], month: onlyMonth.value, day: monthDay.value }, rest: monthDay.rest };
}

function parseTime(text: string): Part<Pick<Fields, "hour" | "minute" | "second">> {
  const hour = parseValues(text, 0, 24);
  const hasHour = !("at" in hour) && hour.rest.startsWith(":");
  const minute = parseValues(hasHour ? hour.rest.slice(1) : text, 0, 60);
  if ("at" in minute) return minute;
  const second = after(minute, ":", (rest) => parseValues(rest, 0, 60));
  return {
    value: {
      hour: hasHour ? hour.value : [],
      minute: minute.value,
      second: "at" in second ? ZERO : second.value,
    },
    rest: "at" in second ? minute.rest : second.rest,
  };
}

function after<T>(
  part: Part<unknown>,
  separator: string,
  parse: (rest: string) => Part<T>,
): Part<T> | Stopped {
  if ("at" in part) return part;
  if (!part.rest.startsWith(separator)) return { at: part.rest, why: "Nom(Tag)" };
  return parse(part.rest.slice(separator.length));
}

function parseValues(text: string, first: number, limit: number): Part<EventValues> {
  if (text.startsWith("*")) {
    const step = text.startsWith("*/") ? parseNumber(text.slice(2), limit) : undefined;
    if (step !== undefined && "at" in step) return step;
    // A step of zero is not read at all; what is left then makes the whole text invalid.
    if (step === undefined || step.value === 0) return { value: [], rest: text.slice(1) };
    return { value: [{ start: first, end: limit - 1, step: step.value }], rest: step.rest };
  }
  const values: EventValue[] = [];
  let rest = text;
  while (values.length === 0 || rest.startsWith(",")) {
    const value = parseValue(values.length === 0 ? rest : rest.slice(1), limit);
    if ("at" in value) {
      if (values.length === 0) return value;
      break;
    }
    values.push(value.value);
    ({ rest } = value);
  }
  return { value: values, rest };
}

function parseValue(text: string, limit: number): Part<EventValue> {
  const start = parseNumber(text, limit);
  if ("at" in start) return start;
  const range = start.rest.startsWith("..") ? parseNumber(start.rest.slice(2), limit) : undefined;
  const end = range === undefined || "at" in range ? undefined : range;
  if (end !== undefined && start.value > end.value) {
    return context(end.rest, "range start is bigger than end");
  }
  const limits = { start: start.value, ...given({ end: end?.value }) };
  const { rest } = end ?? start;
  if (!rest.startsWith("/")) return { value: limits, rest };
  const step = parseNumber(rest.slice(1), limit);
  if ("at" in step) return step;
  // Bounded by the field, so that a step never leaps over the first values of the next hour, day or month.
  return { value: { end: limit - 1, ...limits, step: step.value }, rest: step.rest };
}

function parseNumber(text: string, limit: number): Part<number> {
  const digits = /^\d+/.exec(text)?.[0];
  if (digits === undefined) return { at: text, why: "Nom(Digit)" };
  const rest = text.slice(digits.length);
  return Number(digits) >= limit ? context(rest, "time value too large") : { value: Number(digits), rest };
}

function context(at: string, what: string): Stopped {
  return { at, why: `Context("${what}")` };
}
