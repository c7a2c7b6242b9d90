import { describe, expect, test } from "vitest";
import { readSleepPolicy } from "./sleep-policy.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "../vcluster-spec.ts";

describe("when a cluster goes to sleep", () => {
  test("is as its tier has it, as far as nobody says otherwise", () => {
    expect(readSleepPolicy(undefined, "Starter")).toEqual({ mode: "cold", afterIdleSeconds: 900 });
    expect(readSleepPolicy({}, "Standard")).toEqual({ mode: "warm", afterIdleSeconds: 900 });
    expect(readSleepPolicy(null, "Enterprise").mode).toBe("none");
    expect(readSleepPolicy({ mode: "Warm", afterIdleSeconds: 60 }, "Starter")).toEqual({
      mode: "warm",
      afterIdleSeconds: 60,
    });
  });

  test("is shown and read again as it is", () => {
    const spec = readVirtualClusterSpec({ sleep: { mode: "none" } });
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec)).sleep).toEqual(spec.sleep);
    const { sleep: _old, ...older } = spec;
    expect(shownVirtualClusterSpec(older)["sleep"]).toEqual({ mode: "cold", afterIdleSeconds: 900 });
  });

  test.each([
    { mode: "deep" },
    { afterIdleSeconds: 1 },
    { afterIdleSeconds: 1.5 },
    { afterIdleSeconds: "x" },
  ])("refuses %j", (value) => {
    expect(() => readSleepPolicy(value, "Starter")).toThrow("spec.sleep.");
  });

  test("refuses what is no policy", () => {
    expect(() => readSleepPolicy("often", "Starter")).toThrow("must be an object");
  });

  test("says by the calendar when it sleeps and wakes, where a request does", () => {
    const times = { sleepAt: "mon..fri 20:00", wakeAt: "mon..fri 7:00" };
    expect(readSleepPolicy(times, "Starter")).toMatchObject({ mode: "cold", ...times });
    expect(readSleepPolicy({ sleepAt: "" }, "Starter")).not.toHaveProperty("sleepAt");
    expect(() => readSleepPolicy({ sleepAt: "at noon" }, "Starter")).toThrow(
      /sleep\.sleepAt: must be a calendar event/,
    );
    expect(() => readSleepPolicy({ wakeAt: 7 }, "Starter")).toThrow(
      /sleep\.wakeAt: must be a calendar event/,
    );
    expect(() => readSleepPolicy({ mode: "none", sleepAt: "20:00" }, "Starter")).toThrow(/say cold or warm/);
  });

  test("says what keeps it awake beside those who are connected", () => {
    const policy = readSleepPolicy({ keepAwake: ["Pods", "jobs", "jobs"] }, "Starter");
    expect(policy).toEqual({ mode: "cold", afterIdleSeconds: 900, keepAwake: ["jobs", "pods"] });
    expect(readSleepPolicy(policy, "Starter")).toEqual(policy);
    expect(readSleepPolicy({ keepAwake: [] }, "Starter")).not.toHaveProperty("keepAwake");
    for (const keepAwake of [["watches"], "jobs", [7], {}])
      expect(() => readSleepPolicy({ keepAwake }, "Starter")).toThrow(
        /sleep\.keepAwake: must be a list of jobs, sessions, pods/,
      );
  });

  test("says whether it is made asleep", () => {
    expect(readSleepPolicy({ fromStart: true }, "Starter")).toMatchObject({ mode: "cold", fromStart: true });
    expect(readSleepPolicy({ fromStart: false }, "Starter")).not.toHaveProperty("fromStart");
    expect(() => readSleepPolicy({ fromStart: "yes" }, "Starter")).toThrow(/must be true or false/);
  });
});
