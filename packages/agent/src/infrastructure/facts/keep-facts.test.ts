import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import { keepFacts } from "./keep-facts.ts";

test("bridges are looked at every minute, everything every quarter of an hour, whatever fails", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const failures: string[] = [];
  let [all, bridges] = [0, 0];
  const kept = keepFacts(
    {
      facts: {
        refresh: () => Promise.reject(new Error(`look ${++all}`)),
        refreshBridges: () => Promise.resolve(void bridges++),
      },
      clock,
      log: { error: (_fields, message) => void failures.push(message) },
    },
    stop.signal,
  );
  await clock.advance(14 * 60_000);
  expect([all, bridges]).toEqual([1, 14]);
  await clock.advance(60_000);
  expect([all, bridges]).toEqual([2, 14]);
  expect(failures).toEqual(["looking at this host failed", "looking at this host failed"]);
  stop.abort();
  await kept;
});
