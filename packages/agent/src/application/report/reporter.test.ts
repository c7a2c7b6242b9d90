import type { GuestRuntime, NodeFacts, NodeReport, NodeUsage } from "@gpve/domain/node/runtime.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { describe, expect, test } from "vitest";
import { createReporter, type ReporterDeps } from "./reporter.ts";

const facts = { hostname: "h" } as NodeFacts;
const usage = { cpu: 1 } as NodeUsage;

function world(deps: Partial<ReporterDeps> = {}) {
  const clock = new FakeClock();
  const stop = new AbortController();
  const running = new Set<number>();
  const reporter = createReporter({
    node: "n1",
    agentVersion: "1",
    clock,
    usage: () => Promise.resolve(usage),
    facts: () => ({ facts, generation: 1 }),
    guests: () => [...running].map((vmid) => ({ vmid }) as GuestRuntime),
    running: () => [...running].join(),
    storages: async () => [],
    ends: () => [],
    vclusters: () => [],
    standbys: () => [],
    defaults: () => ({}),
    ...deps,
  });
  return { clock, stop, running, reporter, signal: stop.signal };
}

const vmids = (report: NodeReport | undefined): number[] | undefined =>
  report?.guests.map(({ vmid }) => vmid);

describe("reports", () => {
  test("carry facts when they are new or lost, and go on after a failure", async () => {
    let generation = 1;
    let fail = false;
    let lost = false;
    const { clock, stop, reporter, signal } = world({
      usage: () => (fail ? Promise.reject(new Error("no")) : Promise.resolve(usage)),
      facts: () => ({ facts, generation }),
    });
    const seen: NodeReport[] = [];
    const errors: unknown[] = [];
    const following = reporter.follow((report) => void seen.push(report), {
      signal,
      wantsFacts: () => lost,
      onError: (err) => errors.push(err),
    });
    await clock.advance(3_000);
    generation = 2;
    await clock.advance(2_500);
    lost = true;
    await clock.advance(2_500);
    fail = true;
    await clock.advance(2_500);
    stop.abort();
    await following;
    expect(seen.map((report) => report.facts !== undefined)).toEqual([true, false, true, true]);
    expect(seen[0]).toMatchObject({ node: "n1", usage, guests: [], storages: [] });
    expect(errors).toHaveLength(1);
  });

  test("end with the first failure where nobody hears of it", async () => {
    const { reporter, signal } = world();
    await expect(reporter.follow(() => Promise.reject(new Error("line cut")), { signal })).rejects.toThrow(
      "line cut",
    );
  });

  test("come soon when something happened, and only once for what happens together", async () => {
    const { clock, stop, reporter, signal } = world();
    let seen = 0;
    const following = reporter.follow(() => void (seen += 1), { signal });
    await clock.advance(100);
    expect(seen).toBe(1);
    reporter.hurry();
    await clock.advance(200);
    reporter.hurry();
    await clock.advance(100);
    expect(seen).toBe(2);
    await clock.advance(2_500);
    expect(seen).toBe(3);
    stop.abort();
    await following;
  });
});

describe("who was told", () => {
  test("knows which guests run, without waiting for the next report", async () => {
    const { clock, stop, running, reporter, signal } = world();
    let last: NodeReport | undefined;
    let count = 0;
    const following = reporter.follow(
      (report) => {
        last = report;
        count += 1;
      },
      { signal },
    );
    const begun = clock.monotonic();
    await reporter.told();
    expect(count).toBe(1);
    running.add(100);
    reporter.hurry();
    await reporter.told();
    expect(vmids(last)).toEqual([100]);
    await reporter.told();
    expect(count).toBe(2);
    running.clear();
    await reporter.told();
    expect(vmids(last)).toEqual([]);
    expect(clock.monotonic()).toBe(begun);
    stop.abort();
    await following;
  });

  test("has got a report that was taken after the change, not one that was on its way", async () => {
    const { clock, stop, running, reporter, signal } = world();
    const arrived: NodeReport[] = [];
    const onTheWay: (() => void)[] = [];
    const following = reporter.follow(
      async (report) => {
        await new Promise<void>((resolve) => onTheWay.push(resolve));
        arrived.push(report);
      },
      { signal },
    );
    await clock.advance(0);
    running.add(100);
    let told = 0;
    const all = [1, 2, 3].map(() => reporter.told().then(() => (told += 1)));
    onTheWay.shift()?.();
    await clock.advance(1);
    expect([arrived.map(vmids), told]).toEqual([[[]], 0]);
    onTheWay.shift()?.();
    await Promise.all(all);
    expect(arrived.map(vmids)).toEqual([[], [100]]);
    stop.abort();
    await following;
  });

  test("is not waited for when it is slow, away or not there", async () => {
    const { clock, stop, running, reporter, signal } = world();
    await reporter.told();
    const slow = reporter.follow(() => new Promise<void>(() => undefined), { signal });
    const cut = new AbortController();
    const gone = reporter.follow(() => undefined, { signal: cut.signal });
    await clock.advance(0);
    running.add(100);
    let told = 0;
    const first = reporter.told().then(() => (told += 1));
    await clock.advance(1_900);
    expect(told).toBe(0);
    await clock.advance(200);
    await first;
    cut.abort();
    await gone;
    stop.abort();
    void slow;
  });
});
