import { expect, test } from "vitest";
import { every } from "./every.ts";
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
