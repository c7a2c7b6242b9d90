import type { NodeFacts, NodeReport, NodeUsage } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { describe, expect, test } from "vitest";
import { createReporter, reportLocally } from "./reporter.ts";

const facts = { hostname: "h" } as NodeFacts;
const usage = { cpu: 1 } as NodeUsage;

describe("reports", () => {
  test("carry facts when they are new, and go on after a failure", async () => {
    const clock = new FakeClock();
    let generation = 1;
    let fail = false;
    const reporter = createReporter({
      node: "n1",
      agentVersion: "1",
      clock,
      usage: () => (fail ? Promise.reject(new Error("no")) : Promise.resolve(usage)),
      facts: () => ({ facts, generation }),
      guests: () => [],
    });
    const seen: NodeReport[] = [];
    const errors: unknown[] = [];
    const stop = new AbortController();
    const running = reportLocally(reporter, (report) => seen.push(report), {
      signal: stop.signal,
      onError: (err) => errors.push(err),
    });
    await clock.advance(3_000);
    generation = 2;
    await clock.advance(2_500);
    fail = true;
    await clock.advance(2_500);
    stop.abort();
    await running;
    expect(seen.map((report) => report.facts !== undefined)).toEqual([true, false, true]);
    expect(seen[0]).toMatchObject({ node: "n1", usage, guests: [], storages: [] });
    expect(errors).toHaveLength(1);
  });

  test("come at once when something happened, and only once for what happens together", async () => {
    const clock = new FakeClock();
    const reporter = createReporter({
      node: "n1",
      agentVersion: "1",
      clock,
      usage: () => Promise.resolve(usage),
      facts: () => ({ facts, generation: 1 }),
    });
    let seen = 0;
    const stop = new AbortController();
    const running = reportLocally(reporter, () => (seen += 1), { signal: stop.signal });
    await clock.advance(100);
    expect(seen).toBe(1);
    reporter.hurry();
    reporter.hurry();
    await clock.advance(100);
    expect(seen).toBe(2);
    await clock.advance(2_500);
    expect(seen).toBe(3);
    stop.abort();
    await running;
  });
});
