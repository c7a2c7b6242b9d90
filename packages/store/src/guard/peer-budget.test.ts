import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { utf8 } from "../keys.ts";
import type { Op, Store } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { GuardedStore, type PeerRules } from "./guarded-store.ts";
import { PeerBudget, type BudgetLimits } from "./peer-budget.ts";

const rules: PeerRules = { peer: "p", leases: "/leases/p/", read: ["/g/"], hidden: [], write: ["/g/"] };
let backing: Store;
let clock: FakeClock;
const guarded = (limits: Partial<BudgetLimits>): GuardedStore => {
  const budget = new PeerBudget({
    store: backing,
    clock,
    peer: "p",
    own: ["/g/own/"],
    leases: rules.leases,
    limits,
  });
  return new GuardedStore(backing, { ...rules, budget });
};
const put = (key: string, bytes: number): Op => ({
  type: "put",
  key: utf8(key),
  value: new Uint8Array(bytes),
});
const write = (store: Store, ...success: Op[]) => store.txn({ compare: [], success });

beforeEach(() => {
  clock = new FakeClock();
  backing = openSqliteStore({ path: ":memory:" });
});
afterEach(() => backing.close());

test("a peer keeps so many bytes of its own; what it deletes or replaces it may use again", async () => {
  const store = guarded({ keptBytes: 1_000 });
  await write(store, put("/g/own/a", 600));
  await expect(write(store, put("/g/own/b", 600))).rejects.toMatchObject({
    code: "store.full",
    message: expect.stringContaining("may keep 1000"),
  });
  await write(store, put("/g/shared", 600));
  await write(store, { type: "delete", key: utf8("/g/own/a") });
  await clock.advance(1_000);
  await write(store, put("/g/own/b", 600));
  // The same key again and again is no more than once.
  for (let i = 0; i < 5; i++) {
    await clock.advance(1_000);
    await write(store, put("/g/own/b", 300));
  }
  const nested: Op = { type: "txn", compare: [], success: [], failure: [put("/g/own/c", 900)] };
  await clock.advance(1_000);
  await expect(write(store, nested)).rejects.toMatchObject({ code: "store.full" });
});

test("a peer that begins anew finds what it kept before", async () => {
  await write(guarded({ keptBytes: 1_000 }), put("/g/own/a", 600));
  await expect(write(guarded({ keptBytes: 1_000 }), put("/g/own/b", 600))).rejects.toMatchObject({
    code: "store.full",
  });
});

test("a peer writes so much in a time, and no value that is too large", async () => {
  const store = guarded({ burstBytes: 1_000, bytesPerSecond: 100, valueBytes: 700 });
  await write(store, put("/g/x", 700));
  await expect(write(store, put("/g/x", 700))).rejects.toMatchObject({ code: "resource.busy" });
  await write(store, { type: "delete", key: utf8("/g/x") });
  await clock.advance(5_000);
  await write(store, put("/g/x", 700));
  await expect(write(store, put("/g/x", 701))).rejects.toMatchObject({ code: "request.too_large" });
});

test("a peer has so many leases, also when it asks for many at once, none of them for years", async () => {
  const store = guarded({ leases: 3, ttlSeconds: 60 });
  await expect(store.leaseGrant(61)).rejects.toThrow("a lease of p may last 60 seconds");
  const asked = await Promise.allSettled(Array.from({ length: 10 }, () => store.leaseGrant(60)));
  const granted = asked.flatMap((one) => (one.status === "fulfilled" ? [one.value.id] : []));
  expect(granted).toHaveLength(3);
  await store.leaseRevoke(granted[0] ?? 0n);
  await store.leaseGrant(60);
  await expect(store.leaseGrant(60)).rejects.toMatchObject({ code: "store.full" });
});

test("a peer has so many watches, and again when one has ended", async () => {
  const store = guarded({ watches: 2 });
  const open = async () => {
    const stop = new AbortController();
    const watching = store.watch({ key: utf8("/g/"), signal: stop.signal })[Symbol.asyncIterator]();
    await watching.next();
    return async () => {
      stop.abort();
      await watching.next();
    };
  };
  const end = await open();
  await open();
  await expect(open()).rejects.toMatchObject({ code: "resource.busy" });
  await end();
  await open();
});
