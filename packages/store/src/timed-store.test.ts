import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { expect, test } from "vitest";
import type { Store, WatchBatch } from "./port.ts";
import { timedStore } from "./timed-store.ts";

async function* ready(): AsyncGenerator<WatchBatch> {
  yield { type: "ready", revision: 7 };
}

test("every operation's time and outcome is told, and answers pass through", async () => {
  const clock = new FakeClock();
  const seen: string[] = [];
  const slow = async <T>(value: T): Promise<T> => {
    await clock.sleep(250);
    return value;
  };
  const empty = { kvs: [], more: false, count: 0, revision: 7 };
  const inner: Store = {
    range: () => slow(empty),
    txn: () => Promise.reject(new Error("full")),
    watch: () => Object.assign(ready(), { requestProgress: () => undefined }),
    revision: () => slow(7),
    compact: () => slow(undefined),
    leaseGrant: (ttlSeconds, id) => slow({ id: id ?? 1n, ttlSeconds }),
    leaseKeepAlive: () => slow(5),
    leaseRevoke: () => slow(undefined),
    leaseStatus: (id) => slow({ id, ttlSeconds: 1, grantedTtlSeconds: 2, keys: [] }),
    leases: () => slow([4n]),
    close: async () => void seen.push("closed"),
  };
  const store = timedStore(inner, (name, ok, seconds) => seen.push(`${name} ${ok} ${seconds}`), clock);
  const key = new Uint8Array([1]);
  const passing = async <T>(result: Promise<T>): Promise<T> => {
    await clock.advance(250);
    return result;
  };
  expect(await passing(store.range({ key }))).toBe(empty);
  await expect(store.txn({ compare: [], success: [] })).rejects.toThrow("full");
  expect(await passing(store.revision())).toBe(7);
  await passing(store.compact(3));
  expect(await passing(store.leaseGrant(9, 4n))).toEqual({ id: 4n, ttlSeconds: 9 });
  expect(await passing(store.leaseKeepAlive(4n))).toBe(5);
  await passing(store.leaseRevoke(4n));
  expect((await passing(store.leaseStatus(4n))).id).toBe(4n);
  expect(await passing(store.leases())).toEqual([4n]);
  for await (const batch of store.watch({ key, signal: new AbortController().signal })) {
    expect(batch).toEqual({ type: "ready", revision: 7 });
  }
  await store.close();
  expect(seen).toEqual([
    "range true 0.25",
    "txn false 0",
    "revision true 0.25",
    "compact true 0.25",
    "leaseGrant true 0.25",
    "leaseKeepAlive true 0.25",
    "leaseRevoke true 0.25",
    "leaseStatus true 0.25",
    "leases true 0.25",
    "closed",
  ]);
});
