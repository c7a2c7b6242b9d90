import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { LeaseClock } from "./lease-clock.ts";

test("a lease of more than 24.8 days waits, and no timer is asked for more than it can do", async () => {
  const clock = new FakeClock();
  const waits: number[] = [];
  const expired: bigint[] = [];
  const leases = new LeaseClock(
    {
      now: () => clock.now(),
      monotonic: () => clock.monotonic(),
      sleep: (ms, signal) => clock.sleep(ms, signal),
      after: (ms, callback) => {
        waits.push(ms);
        return clock.after(ms, callback);
      },
    },
    (id) => expired.push(id),
  );
  const days = 60 * 86_400;
  leases.add(1n, days);
  await clock.advance((days - 1) * 1_000);
  expect(expired).toEqual([]);
  await clock.advance(1_000);
  expect(expired).toEqual([1n]);
  expect(Math.max(...waits)).toBeLessThan(2 ** 31);
  expect(waits.length).toBeLessThan(5);
});
