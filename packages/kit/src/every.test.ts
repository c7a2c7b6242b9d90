import { given } from "@gpve/contracts/given.ts";
import { describe, expect, test } from "vitest";
import { every, everyDue } from "./every.ts";
import { FakeClock } from "./testing/fake-clock.ts";

test("works, pauses and works again until the signal aborts", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  let times = 0;
  const ended = every(1_000, { clock, signal: stop.signal }, () => times++);
  await clock.advance(2_500);
  expect(times).toBe(3);
  stop.abort();
  await ended;
  await clock.advance(5_000);
  expect(times).toBe(3);
});

test("what the work throws ends it", async () => {
  const failing = every(1, { clock: new FakeClock(), signal: new AbortController().signal }, () =>
    Promise.reject(new Error("broken")),
  );
  await expect(failing).rejects.toThrow("broken");
});

describe("work that is due", () => {
  function started(more: { readonly restMs?: number; readonly work?: () => Promise<void> } = {}) {
    const clock = new FakeClock();
    const stop = new AbortController();
    const seen = { times: 0, failures: [] as unknown[], isWatched: true };
    const listeners: (() => void)[] = [];
    const due = {
      clock,
      signal: stop.signal,
      watch: (changed: () => void) => {
        listeners.push(changed);
        return () => void (seen.isWatched = false);
      },
      waitMs: () => 10_000,
      failed: (err: unknown) => void seen.failures.push(err),
      ...given({ restMs: more.restMs }),
    };
    const ended = everyDue(due, async () => {
      seen.times++;
      await more.work?.();
    });
    return { clock, stop, seen, ended, change: () => listeners.forEach((each) => each()) };
  }

  test("is done at its time, and at once after a change", async () => {
    const { clock, stop, seen, ended, change } = started();
    await clock.advance(9_000);
    expect(seen.times).toBe(1);
    change();
    await clock.advance(1);
    expect(seen.times).toBe(2);
    await clock.advance(10_000);
    expect(seen.times).toBe(3);
    stop.abort();
    await ended;
    expect(seen).toMatchObject({ times: 3, isWatched: false });
  });

  test("is done once for many changes, those that come while it is done too", async () => {
    const { clock, seen, change, stop, ended } = started({
      restMs: 100,
      work: async () => {
        if (seen.times === 1) change();
      },
    });
    await clock.advance(50);
    for (let at = 0; at < 5; at++) change();
    expect(seen.times).toBe(1);
    await clock.advance(50);
    expect(seen.times).toBe(2);
    stop.abort();
    await ended;
  });

  test("is tried again when it fails", async () => {
    const { clock, seen, stop, ended } = started({ work: () => Promise.reject(new Error("broken")) });
    await clock.advance(10_001);
    expect(seen.times).toBe(2);
    expect(seen.failures).toHaveLength(2);
    stop.abort();
    await ended;
  });
});
