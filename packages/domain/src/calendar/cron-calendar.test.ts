import { describe, expect, test } from "vitest";
import { nextCron, parseCron } from "./cron-calendar.ts";
import { UTC_OFFSET, zoneOffset } from "./time-zone.ts";

const at = (text: string): number => Date.parse(text) / 1_000;
const next = (cron: string, last: string, zone = UTC_OFFSET, since = last): string | undefined => {
  const schedule = parseCron(cron);
  if (schedule === undefined) return "refused";
  const found = nextCron(schedule, at(last), { zone, since: at(since) });
  return found === undefined ? undefined : new Date(found * 1_000).toISOString().replace(":00.000Z", "Z");
};

describe("schedules of CronJobs", () => {
  test.each([
    // 2026-11-18 is a Wednesday.
    ["* * * * *", "2026-11-18T01:02:03Z", "2026-11-18T01:03Z"],
    ["*/15 * * * *", "2026-11-18T01:02:03Z", "2026-11-18T01:15Z"],
    ["5/20 * * * *", "2026-11-18T01:26:00Z", "2026-11-18T01:45Z"],
    ["30 4 * * *", "2026-11-18T04:30:00Z", "2026-11-19T04:30Z"],
    ["0 9-17/4 * * MON-FRI", "2026-11-20T17:00:00Z", "2026-11-23T09:00Z"],
    ["0 0 * * 0", "2026-11-18T00:00:00Z", "2026-11-22T00:00Z"],
    ["0 0 13 * 5", "2026-11-18T00:00:00Z", "2026-11-20T00:00Z"],
    ["0 0 19 * fri", "2026-11-18T00:00:00Z", "2026-11-19T00:00Z"],
    ["0 0 */2 * 5", "2026-11-18T00:00:00Z", "2026-11-19T00:00Z"],
    ["0 0 1,15 jan,Jul ?", "2026-11-18T00:00:00Z", "2027-01-01T00:00Z"],
    ["@hourly", "2026-11-18T01:02:03Z", "2026-11-18T02:00Z"],
    ["@daily", "2026-11-18T01:02:03Z", "2026-11-19T00:00Z"],
    ["@weekly", "2026-11-18T01:02:03Z", "2026-11-22T00:00Z"],
    ["@yearly", "2026-11-18T01:02:03Z", "2027-01-01T00:00Z"],
    ["0 0 31 2 *", "2026-11-18T00:00:00Z", undefined],
    ["0 0 29 2 *", "2026-11-18T00:00:00Z", "2028-02-29T00:00Z"],
  ])("%s after %s comes at %s", (cron, last, wanted) => {
    expect(next(cron, last)).toBe(wanted);
  });

  test("are counted in the zone that the job names", () => {
    expect(next("0 9 * * *", "2026-11-18T01:00:00Z", zoneOffset("Asia/Shanghai"))).toBe("2026-11-19T01:00Z");
    expect(next("0 9 * * *", "2026-07-01T06:00:00Z", zoneOffset("Europe/Berlin"))).toBe("2026-07-01T07:00Z");
  });

  test("that are intervals are counted from when the job came last", () => {
    const since = "2026-11-18T00:10:00Z";
    expect(next("@every 1h30m", "2026-11-18T01:00:00Z", UTC_OFFSET, since)).toBe("2026-11-18T01:40Z");
    expect(next("@every 1h30m", "2026-11-18T01:40:00Z", UTC_OFFSET, since)).toBe("2026-11-18T03:10Z");
  });

  test.each([
    "",
    "* * * *",
    "60 * * * *",
    "* * 0 * *",
    "* * * * 7",
    "5-1 * * * *",
    "*/0 * * * *",
    "1-2-3 * * * *",
    "@every 0s",
    "@never",
    "a * * * *",
  ])("'%s' is refused", (cron) => {
    expect(next(cron, "2026-11-18T00:00:00Z")).toBe("refused");
  });
});
