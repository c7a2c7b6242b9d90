import { setTimeout as sleep } from "node:timers/promises";
import { describe } from "vitest";
import { systemClock } from "./clock.ts";
import { clockConformance } from "./testing/clock-conformance.ts";
import { FakeClock } from "./testing/fake-clock.ts";

describe("the system's clock", () => {
  clockConformance(() => ({ clock: systemClock, pass: async (ms) => await sleep(ms) }));
});

describe("a clock that tests move", () => {
  clockConformance(() => {
    const clock = new FakeClock();
    return { clock, pass: (ms) => clock.advance(ms) };
  });
});
