import { afterEach, beforeEach, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { evidenceCollection, managerCollection, MANAGER_STATUS_ID } from "@gpve/domain/ha/collections.ts";
import type { LeaseReport } from "@gpve/domain/ha/fencing.ts";
import { decodeLease, leaseKey, leaseTimes, takenLease, type NodeLease } from "@gpve/domain/ha/node-lease.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { prefixEnd, utf8 } from "@gpve/store/keys.ts";
import type { Store } from "@gpve/store/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { LeaseKeeper } from "./lease-keeper.ts";

const key = utf8(leaseKey("n1"));
let clock: FakeClock;
let store: Store;
let stop: AbortController;
let running: Promise<void>;
let keeper: LeaseKeeper;
let wish: boolean;
let reachable: boolean;
let idle: boolean;
let left: string[];
let guests: string[];
let deadline: number;
let watchdog: string[];
let report: LeaseReport | undefined;

beforeEach(() => {
  clock = new FakeClock(1_000_000);
  store = openSqliteStore({ path: ":memory:", clock });
  stop = new AbortController();
  wish = false;
  reachable = true;
  idle = false;
  [left, guests, watchdog] = [[], [], []];
  deadline = -1;
  report = undefined;
  const throughServers = new Proxy(store, {
    get: (target, name) => {
      const found: unknown = Reflect.get(target, name);
      if (typeof found !== "function") return found;
      return (...args: unknown[]) => {
        if (!reachable) return Promise.reject(new AppError("store.unavailable", "cut off"));
        return Reflect.apply(found, target, args);
      };
    },
  });
  keeper = new LeaseKeeper({
    node: "n1",
    store: throughServers,
    clock,
    log: silentLogger,
    bootMs: () => clock.monotonic(),
    guests: {
      setDeadline: (at) => void (deadline = at),
      end: () => Promise.resolve({ ended: guests.splice(0), left: [...left] }),
    },
    watchdog: { feed: () => watchdog.push("fed"), disarm: () => watchdog.push("off") },
    wished: () => wish,
    isIdle: () => idle,
    report: (said) => void (report = said),
  });
  running = keeper.run(stop.signal);
});
afterEach(async () => {
  stop.abort(new Error("over"));
  await clock.advance(1_000);
  await running;
  await store.close();
});

const stored = async (): Promise<NodeLease | undefined> => {
  const { kvs } = await store.range({ key });
  return kvs[0] === undefined ? undefined : decodeLease(JSON.parse(Buffer.from(kvs[0].value).toString()));
};
const put = (at: Uint8Array, value: unknown) =>
  store.txn({ compare: [], success: [{ type: "put", key: at, value: utf8(JSON.stringify(value)) }] });
const managerSays = (status: object) => put(utf8(`${managerCollection.prefix}${MANAGER_STATUS_ID}`), status);
const evidence = async (): Promise<string> => {
  const from = utf8(evidenceCollection.prefix);
  const { kvs } = await store.range({ key: from, end: prefixEnd(from) });
  return kvs.map(({ value }) => Buffer.from(value).toString()).join("\n");
};

test("gives signs of life without holding anything, and no deadline and no watchdog", async () => {
  await clock.advance(7_000);
  expect(await stored()).toMatchObject({ holder: "nobody", token: 0 });
  expect((await stored())?.beat).toBeGreaterThanOrEqual(3);
  expect(report).toMatchObject({ held: false });
  expect([deadline, watchdog]).toEqual([-1, []]);
});

test("gives none while nobody cares, and begins when somebody does", async () => {
  idle = true;
  await clock.advance(7_000);
  expect((await stored())?.beat ?? 0).toBeLessThanOrEqual(1);
  const before = (await stored())?.beat;
  await clock.advance(7_000);
  expect((await stored())?.beat).toBe(before);
  wish = true;
  await clock.advance(3_000);
  expect(await stored()).toMatchObject({ holder: "node" });
});

test("takes the lease when it is wished for, moves the deadline on, and gives it back", async () => {
  await clock.advance(3_000);
  wish = true;
  await clock.advance(1_000);
  expect(await stored()).toMatchObject({ holder: "node", token: 1 });
  expect(report).toMatchObject({ held: true, token: 1 });
  const first = deadline;
  await clock.advance(4_000);
  expect(deadline).toBeGreaterThan(first);
  expect(deadline).toBeLessThanOrEqual(clock.monotonic() + leaseTimes.stopMs);
  expect(watchdog.at(-1)).toBe("fed");
  wish = false;
  await clock.advance(3_000);
  expect(await stored()).toMatchObject({ holder: "nobody", token: 2 });
  expect(watchdog.at(-1)).toBe("off");
  expect(guests).toEqual([]);
});

test("asks again at once when it could not renew", async () => {
  wish = true;
  await clock.advance(3_000);
  const before = (await stored())?.beat ?? 0;
  reachable = false;
  await clock.advance(2_000);
  reachable = true;
  await clock.advance(400);
  expect((await stored())?.beat).toBeGreaterThan(before);
});

test("ends its guests by its own clock when it cannot renew, says so later, and goes on with what it has", async () => {
  wish = true;
  await clock.advance(3_000);
  guests = ["100"];
  reachable = false;
  await clock.advance(leaseTimes.stopMs - 2_500);
  expect(guests).toEqual(["100"]);
  await clock.advance(3_000);
  expect(guests).toEqual([]);
  expect(report).toMatchObject({ held: false });
  // Nothing is left that a reset would have to end: what is not under HA runs on for as long as it takes.
  await clock.advance(60_000);
  expect(watchdog.at(-1)).toBe("off");
  reachable = true;
  await clock.advance(3_000);
  expect(watchdog.at(-1)).toBe("fed");
  expect(report).toMatchObject({ held: true, token: 1 });
  expect(await evidence()).toMatch(/could not be renewed for [0-9.]+ s: ended 100/);
});

test("feeds no watchdog while a guest does not go", async () => {
  wish = true;
  await clock.advance(3_000);
  left = ["100"];
  reachable = false;
  await clock.advance(leaseTimes.stopMs);
  const fed = watchdog.length;
  await clock.advance(5_000);
  expect(watchdog.length).toBe(fed);
  left = [];
  await clock.advance(1_000);
  expect(watchdog.slice(fed)).toEqual(["off"]);
});

test("loses it to the manager at once, and has it back only when that has said what became of the guests", async () => {
  wish = true;
  await clock.advance(3_000);
  guests = ["100"];
  await put(key, takenLease("n1", await stored(), 0));
  await clock.advance(3_000);
  expect(guests).toEqual([]);
  expect(report).toMatchObject({ held: false });
  await clock.advance(5_000);
  expect(await stored()).toMatchObject({ holder: "manager", token: 2 });
  await managerSays({ nodes: { n1: "fence" }, settled: { n1: 2 } });
  await clock.advance(5_000);
  expect(await stored()).toMatchObject({ holder: "manager" });
  await managerSays({ nodes: { n1: "online" }, settled: { n1: 1 } });
  await clock.advance(5_000);
  expect(await stored()).toMatchObject({ holder: "manager" });
  await managerSays({ nodes: { n1: "online" }, settled: { n1: 2 } });
  await clock.advance(5_000);
  expect(await stored()).toMatchObject({ holder: "node", token: 3 });
});

test("asked to end, it ends its guests, gives the lease back and disarms the watchdog", async () => {
  wish = true;
  await clock.advance(3_000);
  guests = ["100"];
  stop.abort(new Error("over"));
  await clock.advance(1_000);
  await running;
  await keeper.release();
  expect(guests).toEqual([]);
  expect(watchdog.at(-1)).toBe("off");
  expect(await stored()).toMatchObject({ holder: "nobody" });
});
