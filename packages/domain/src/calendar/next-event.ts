// When a calendar event comes next.
import type { CalendarEvent } from "./calendar-event.ts";
import type { CivilTime } from "./civil-time.ts";
import { matches, nextAbove } from "./event-values.ts";
import { existingWall, momentsOf, UTC_OFFSET, type ZoneOffset } from "./time-zone.ts";

interface Wall extends CivilTime {
  /** Monday = 0. */
  readonly weekday: number;
}

/** After so many corrections there is no such moment: 30 February. */
const MAX_CORRECTIONS = 1000;
const LAST_YEAR = 9999;

/**
 * The first moment of the event after `last`, both in seconds since 1970; undefined = it never comes. A time in the
 * hour that clocks skip does not come that day; one in the hour they repeat comes once.
 */
export function nextEvent(event: CalendarEvent, last: number, zone: ZoneOffset): number | undefined {
  const offset = event.utc ? UTC_OFFSET : zone;
  const from = Math.floor(last) + 1;
  let wall = from + offset(from);
  for (let count = 0; count <= MAX_CORRECTIONS; count++) {
    const at = fieldsOf(wall);
    if (at.year > LAST_YEAR) return undefined;
    const later = correction(event, at);
    if (later === "never") return undefined;
    if (later === undefined) {
      const moments = momentsOf(wall, offset);
      return moments.find((moment) => moment >= from) ?? moments.at(-1);
    }
    wall = existingWall(later, offset);
  }
  return undefined;
}

/** The next wall time worth looking at; undefined = this one fits. */
function correction(event: CalendarEvent, at: Wall): number | "never" | undefined {
  if (!matches(event.year, at.year)) {
    const year = nextAbove(event.year, at.year);
    return year === undefined ? "never" : wallOf(year, 1, 1);
  }
  if (!matches(event.month, at.month)) {
    const month = nextAbove(event.month, at.month);
    return month === undefined ? wallOf(at.year + 1, 1, 1) : wallOf(at.year, month, 1);
  }
  if (!matches(event.day, at.day)) {
    const day = nextAbove(event.day, at.day);
    return day === undefined ? wallOf(at.year, at.month + 1, 1) : wallOf(at.year, at.month, day);
  }
  if (event.days.size > 0 && !event.days.has(at.weekday)) return wallOf(at.year, at.month, at.day + 1);
  return timeCorrection(event, at);
}

function timeCorrection(event: CalendarEvent, at: Wall): number | undefined {
  const { year, month, day, hour, minute } = at;
  if (!matches(event.hour, hour)) {
    const next = nextAbove(event.hour, hour);
    return next === undefined ? wallOf(year, month, day + 1) : wallOf(year, month, day, next);
  }
  if (!matches(event.minute, minute)) {
    const next = nextAbove(event.minute, minute);
    return next === undefined ? wallOf(year, month, day, hour + 1) : wallOf(year, month, day, hour, next);
  }
  if (!matches(event.second, at.second)) {
    const next = nextAbove(event.second, at.second);
    return next === undefined
      ? wallOf(year, month, day, hour, minute + 1)
      : wallOf(year, month, day, hour, minute, next);
  }
  return undefined;
}

function fieldsOf(wall: number): Wall {
  const date = new Date(wall * 1000);
  return {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    day: date.getUTCDate(),
    hour: date.getUTCHours(),
    minute: date.getUTCMinutes(),
    second: date.getUTCSeconds(),
    weekday: (date.getUTCDay() + 6) % 7,
  };
}

/** Values over their limit carry on: month 13 is January, hour 24 the next day. */
function wallOf(year: number, month: number, day: number, hour = 0, minute = 0, second = 0): number {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second, 0);
  return date.getTime() / 1000;
}
