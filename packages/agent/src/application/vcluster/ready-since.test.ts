import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, it } from "vitest";
import { ReadySince } from "./ready-since.ts";

const running = { phase: "Running", power: "hot" } as const;

it("tells since when a cluster answers: through sleep, not through a crash", async () => {
  const clock = new FakeClock();
  const times = new ReadySince(clock);
  const cluster = { name: "demo", phaseAt: clock.now() };
  const begun = times.of(cluster, { phase: "Initializing", power: "cold" });
  expect(begun).toBe(cluster.phaseAt);
  await clock.advance(3_000);
  const ready = times.of(cluster, running);
  expect(ready).toBe(begun + 3_000);
  await clock.advance(60_000);
  expect(times.of(cluster, { phase: "Running", power: "cold", asleep: true })).toBe(ready);
  expect(times.of(cluster, { phase: "Running", power: "cold" })).toBe(ready + 60_000);
});

it("believes the phase where it has just begun to look, and no cluster that had the name before", async () => {
  const clock = new FakeClock();
  const times = new ReadySince(clock);
  const long = clock.now() - 86_400_000;
  expect(times.of({ name: "demo", phaseAt: long }, running)).toBe(long);
  expect(times.of({ name: "old" }, running)).toBe(clock.now());
  times.of({ name: "demo", phaseAt: long }, { phase: "Terminating", power: "cold" });
  await clock.advance(5_000);
  const made = clock.now();
  expect(times.of({ name: "demo", phaseAt: made }, { phase: "Pending", power: "cold" })).toBe(made);
});
