import { describe, expect, test } from "vitest";
import { UTC_OFFSET } from "../../calendar/time-zone.ts";
import { nextJob, nextScheduled, nextWake } from "./next-wake.ts";

const now = Date.parse("2026-11-18T01:02:03Z");
const job = (name: string, schedule: string, more: object = {}, status: object = {}) => ({
  metadata: { namespace: "default", name, creationTimestamp: "2026-11-18T00:00:00Z" },
  spec: { schedule, ...more },
  status,
});
const at = (text: string): number => Date.parse(text);

describe("the next wake of a cluster", () => {
  test("is for the CronJob that comes first and is not suspended", () => {
    const items = [
      job("late", "0 4 * * *"),
      job("soon", "*/10 * * * *", { suspend: true }),
      job("first", "30 1 * * *"),
      job("broken", "every day"),
      job("never", "0 0 31 2 *"),
      {},
    ];
    expect(nextJob({ items }, now)).toEqual({ at: at("2026-11-18T01:30:00Z"), why: "CronJob default/first" });
    expect(nextJob({ items: [] }, now)).toBeUndefined();
    expect(nextJob(undefined, now)).toBeUndefined();
  });

  test("heeds the zone of a job, and when one with an interval came last", () => {
    const shanghai = job("zone", "0 10 * * *", { timeZone: "Asia/Shanghai" });
    expect(nextJob({ items: [shanghai] }, now)?.at).toBe(at("2026-11-18T02:00:00Z"));
    const every = job("every", "@every 1h", {}, { lastScheduleTime: "2026-11-18T00:30:00Z" });
    expect(nextJob({ items: [every] }, now)?.at).toBe(at("2026-11-18T01:30:00Z"));
    expect(nextJob({ items: [job("every", "@every 1h")] }, now)?.at).toBe(at("2026-11-18T02:00:00Z"));
  });

  test("is as its policy says, where that comes first", () => {
    const policy = { mode: "cold", afterIdleSeconds: 900, wakeAt: "02:00" } as const;
    const given = { now, zone: UTC_OFFSET };
    expect(nextWake({ items: [] }, policy, given)).toEqual({
      at: at("2026-11-18T02:00:00Z"),
      why: "its schedule '02:00'",
    });
    expect(nextWake({ items: [job("a", "0 3 * * *")] }, policy, given)?.why).toContain("schedule");
    expect(nextWake({ items: [job("a", "5 1 * * *")] }, policy, given)?.why).toBe("CronJob default/a");
    expect(nextScheduled("nonsense", now, UTC_OFFSET)).toBeUndefined();
    expect(nextScheduled(undefined, now, UTC_OFFSET)).toBeUndefined();
  });
});
