// A clock whose sleeps take no time but its own.
import type { Clock } from "@gpve/kit/clock.ts";

export function instantClock(start = Date.UTC(2026, 0, 1)): Clock {
  let now = start;
  return {
    now: () => now,
    monotonic: () => now,
    sleep: async (ms, signal) => {
      signal?.throwIfAborted();
      now += ms;
    },
    after: () => () => undefined,
  };
}
