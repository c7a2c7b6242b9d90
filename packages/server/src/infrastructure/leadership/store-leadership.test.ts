import { afterEach, expect, it } from "vitest";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import type { Store } from "@gpve/store/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { leader } from "./store-leadership.ts";

let store: Store;
afterEach(() => store.close());

it("lets one candidate work at a time, and the next when the first is gone", async () => {
  const clock = new FakeClock();
  store = openSqliteStore({ path: ":memory:", clock });
  const working = new Set<string>();
  const seen: string[] = [];
  const stand = (candidate: string, stop: AbortController): Promise<void> =>
    leader({ store, clock, log: silentLogger, candidate })(
      "x",
      async (signal) => {
        working.add(candidate);
        seen.push(candidate);
        await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
        working.delete(candidate);
      },
      stop.signal,
    );
  const [a, b] = [new AbortController(), new AbortController()];
  const first = stand("a", a);
  await clock.advance(1_000);
  const second = stand("b", b);
  await clock.advance(60_000);
  expect([...working]).toEqual(["a"]);
  a.abort(new Error("stopping"));
  await first;
  await clock.advance(1_000);
  expect([...working]).toEqual(["b"]);
  b.abort(new Error("stopping"));
  await second;
  expect(seen).toEqual(["a", "b"]);
});

it("stands again after its work failed", async () => {
  const clock = new FakeClock();
  store = openSqliteStore({ path: ":memory:", clock });
  const stop = new AbortController();
  let tries = 0;
  const standing = leader({ store, clock, log: silentLogger, candidate: "a" })(
    "x",
    async () => {
      tries++;
      if (tries === 3) stop.abort(new Error("enough"));
      throw new Error("broken");
    },
    stop.signal,
  );
  for (let i = 0; i < 20; i++) await clock.advance(1_000);
  await standing;
  expect(tries).toBe(3);
});
