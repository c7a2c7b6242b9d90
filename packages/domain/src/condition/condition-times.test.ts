import { expect, it } from "vitest";
import { conditionTimesCollection, nodeConditionsId, settleTimes } from "./condition-times.ts";

it("keeps the time of what is as it was", () => {
  const known = { Ready: { status: "True", since: 1 }, ClockSkew: { status: "False", since: 1 } } as const;
  expect(settleTimes(known, { Ready: { status: "True", since: 9 } })).toBe(known);
  expect(settleTimes(known, { Ready: { status: "False", since: 9 } })).toEqual({
    Ready: { status: "False", since: 9 },
    ClockSkew: { status: "False", since: 1 },
  });
});

it("reads what was kept, and leaves out what it does not know", () => {
  const { decode } = conditionTimesCollection;
  expect(nodeConditionsId("n1")).toBe("nodes/n1");
  expect(decode({ Ready: { status: "Unknown", since: 1 } })).toEqual({
    Ready: { status: "Unknown", since: 1 },
  });
  expect(decode({ Ready: { status: "Perhaps", since: 1 }, Other: { status: "True" } })).toEqual({});
  expect(decode(null)).toEqual({});
});
