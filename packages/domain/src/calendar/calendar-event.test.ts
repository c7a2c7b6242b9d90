import { expect, it } from "vitest";
import { parseCalendarEvent } from "./calendar-event.ts";
import { nextEvent } from "./next-event.ts";
import { zoneOffset } from "./time-zone.ts";

const MIN = 60;
const HOUR = 3600;
const DAY = 86_400;
const FRIDAY = 1_596_153_600; // 2020-07-31
const NEW_YEARS_EVE = 1_609_372_800; // Thursday, 2020-12-31

function next(text: string, last: number, zone = "UTC"): number | undefined {
  const parsed = parseCalendarEvent(text);
  if (!parsed.ok) throw new Error(parsed.error);
  return nextEvent(parsed.event, last, zoneOffset(zone));
}

const at = (iso: string): number => Date.parse(iso) / 1000;

// The start of 1970 was a Thursday.
it.each<[string, number, number]>([
  ["0", 0, HOUR],
  ["*", 0, MIN],
  ["*", 59, MIN],
  ["*", 60, 2 * MIN],
  ["*:0", 0, HOUR],
  ["*:*", 0, MIN],
  ["*:*:*", 0, 1],
  ["*:3:5", 0, 3 * MIN + 5],
  ["*/10", 0, 10 * MIN],
  ["*/10", 599, 10 * MIN],
  ["*/10", 50 * MIN, HOUR],
  ["*/7", 56 * MIN, HOUR],
  ["*/12:0", 10, 12 * HOUR],
  ["*/12:0", 13 * HOUR, DAY],
  ["1/12:0/15", 0, HOUR],
  ["1/12:0/15", HOUR + 45 * MIN, 13 * HOUR],
  ["1/12:0/15", 13 * HOUR + 45 * MIN, 25 * HOUR],
  ["1,4,6", 5 * MIN, 6 * MIN],
  ["1,4,6", 6 * MIN, HOUR + MIN],
  ["23..23:0..3", 0, 23 * HOUR],
  ["23..23:0..3", 23 * HOUR + 3 * MIN, 47 * HOUR],
  ["Mon", 0, 4 * DAY],
  ["Mon", 4 * DAY, 11 * DAY],
  ["sat..sun", 2 * DAY, 3 * DAY],
  ["sat..sun", 3 * DAY, 9 * DAY],
  ["fri..mon", 4 * DAY, 8 * DAY],
  ["wed,mon..tue,fri", 0, DAY],
  ["mon */15", 4 * DAY, 4 * DAY + 15 * MIN],
  ["mon 2:50", 0, 4 * DAY + 2 * HOUR + 50 * MIN],
  ["mon..fri 02:30", DAY + 3 * HOUR, 4 * DAY + 2 * HOUR + 30 * MIN],
  ["22/1:0", 22 * HOUR, 23 * HOUR],
  ["*/2:*", HOUR, 2 * HOUR],
  ["20..22:*/30", 22 * HOUR + 30 * MIN, 44 * HOUR],
  ["2..22/2:30", 0, 2 * HOUR + 30 * MIN],
  ["2..22/2:30", 22 * HOUR + 30 * MIN, DAY + 2 * HOUR + 30 * MIN],
  ["4..10/2:0", 11 * HOUR, DAY + 4 * HOUR],
  ["10,5:8,4", 0, 5 * HOUR + 4 * MIN],
  ["6,4..10:23,5/5", 0, 4 * HOUR + 5 * MIN],
  ["5/2:0", 7 * HOUR, 9 * HOUR],
  ["5/2:0", 23 * HOUR, DAY + 5 * HOUR],
  ["1:0", 15 * HOUR, DAY + HOUR],
  // No hour is 25: PVE reads minutes and seconds then.
  ["25:00", 0, 25 * MIN],
  ["sat", FRIDAY, FRIDAY + DAY],
  ["fri", FRIDAY, FRIDAY + 7 * DAY],
  ["fri", NEW_YEARS_EVE, NEW_YEARS_EVE + DAY],
  ["wed", NEW_YEARS_EVE, NEW_YEARS_EVE + 6 * DAY],
  ["2020-07-31", 0, FRIDAY],
  ["02-28", 0, (31 + 27) * DAY],
  ["02-29", 0, 2 * 365 * DAY + (31 + 28) * DAY],
  ["1965/5-01-01", -1, 0],
  ["2020-7..9-2/2", FRIDAY, FRIDAY + 2 * DAY],
  ["*-*-2/5 4:00", 30 * DAY + 5 * HOUR, 32 * DAY + 4 * HOUR],
  ["2020,2021-12-31", FRIDAY, NEW_YEARS_EVE],
  ["sat *-1..7 15:00", 0, 2 * DAY + 15 * HOUR],
  ["sat *-1..7 15:00", 3 * DAY, (31 + 6) * DAY + 15 * HOUR],
  ["minutely", 0, MIN],
  ["hourly", 0, HOUR],
  ["daily", 1, DAY],
  ["weekly", 0, 4 * DAY],
  ["monthly", 0, 31 * DAY],
  ["quarterly", 0, 90 * DAY],
  ["semiannually", 0, 181 * DAY],
  ["semi-annually", 0, 181 * DAY],
  ["yearly", 0, 365 * DAY],
  ["annually", 0, 365 * DAY],
])("'%s' after %i comes at %i", (text, last, expected) => {
  expect(next(text, last)).toBe(expected);
  expect(next(`${text} UTC`, last, "America/New_York")).toBe(expected);
});

it.each(["2021-02-29", "02-30", "1999-*-*"])("'%s' never comes again", (text) => {
  expect(next(text, FRIDAY)).toBeUndefined();
});

it.each([
  ["whenever", "at 'whenever' - Context(\"weekday\")"],
  ["61", "at '61' - Context(\"date or time specification\")"],
  ["", "at '' - Context(\"date or time specification\")"],
  ["*/61", "at '*/61' - Context(\"date or time specification\")"],
  ["*/0", "at '/0' - Nom(Eof)"],
  ["0..80", "at '..80' - Nom(Eof)"],
  ["9..3:0", "at '9..3:0' - Context(\"date or time specification\")"],
  ["mon 61", "at '61' - Nom(Eof)"],
  ["mon,whenever 2:00", "at ',whenever 2:00' - Nom(Eof)"],
  ["mon..", "at '..' - Nom(Eof)"],
  ["13-01", "at '-01' - Nom(Eof)"],
  ["1,:0", "at ',:0' - Nom(Eof)"],
  ["2:00 tomorrow", "at ' tomorrow' - Nom(Eof)"],
  ["Daily", "at 'Daily' - Context(\"weekday\")"],
])("refuses '%s' and says where", (text, error) => {
  const parsed = parseCalendarEvent(text);
  expect(parsed.ok ? "" : parsed.error).toBe(`unable to parse calendar event ${error}`);
});

it("counts in the zone given, over both changes of the clocks", () => {
  const vienna = (text: string, last: string): string =>
    new Date((next(text, at(last), "Europe/Vienna") ?? 0) * 1000).toISOString();
  expect(vienna("2:30", "2026-01-01T12:00:00Z")).toBe("2026-01-02T01:30:00.000Z");
  expect(vienna("2:30", "2026-07-01T12:00:00Z")).toBe("2026-07-02T00:30:00.000Z");
  // 29 March: 02:00 is followed by 03:00.
  expect(vienna("2:30", "2026-03-28T12:00:00Z")).toBe("2026-03-30T00:30:00.000Z");
  expect(vienna("*:0", "2026-03-29T00:30:00Z")).toBe("2026-03-29T01:00:00.000Z");
  expect(vienna("mon..sun 0:15", "2026-03-29T12:00:00Z")).toBe("2026-03-29T22:15:00.000Z");
  // 25 October: 02:00 to 03:00 comes twice, the event once.
  expect(vienna("2:30", "2026-10-24T12:00:00Z")).toBe("2026-10-25T00:30:00.000Z");
  expect(vienna("2:30", "2026-10-25T00:30:00Z")).toBe("2026-10-26T01:30:00.000Z");
  expect(vienna("*/15", "2026-10-25T01:10:00Z")).toBe("2026-10-25T01:15:00.000Z");
});

it("takes a zone it does not know for UTC", () => {
  expect(next("2:30", 0, "Middle/Earth")).toBe(2 * HOUR + 30 * MIN);
});
