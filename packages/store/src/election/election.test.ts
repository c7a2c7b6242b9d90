import { given } from "@gpve/contracts/given.ts";
import { afterEach, expect, it } from "vitest";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { utf8 } from "../keys.ts";
import type { Store } from "../port.ts";
import { campaign, leads } from "./election.ts";
import { type Session, openSession } from "./session.ts";

const log = { error: () => undefined };
const name = "/leaders/ha/";
let clock = new FakeClock();
let store: Store;

function setUp(): void {
  clock = new FakeClock();
  store = openSqliteStore({ path: ":memory:", clock });
}
afterEach(() => store.close());

const session = (on: Store = store): Promise<Session> => openSession(on, { ttlSeconds: 9, log, clock });
const stand = async (value: string, own: Session, signal?: AbortSignal) =>
  campaign({ store, session: own, name, value, clock, ...given({ signal }) });
const settle = (): Promise<void> => clock.advance(0);

it("lets the first candidate lead and the others follow in order, with growing tokens", async () => {
  setUp();
  const [a, b, c] = [await session(), await session(), await session()];
  const first = await stand("a", a);
  const order: string[] = [];
  const second = stand("b", b).then((won) => (order.push("b"), won));
  await settle();
  const third = stand("c", c).then((won) => (order.push("c"), won));
  await settle();
  expect(order).toEqual([]);
  await first.resign();
  await first.resign();
  expect(first.signal.aborted).toBe(true);
  const two = await second;
  expect(order).toEqual(["b"]);
  expect(two.token).toBeGreaterThan(first.token);
  await b.close();
  await b.close();
  expect(two.signal.aborted).toBe(true);
  expect((await third).token).toBeGreaterThan(two.token);
});

it("passes leadership on when the leader is silent, after the leader knows it", async () => {
  setUp();
  let cut = false;
  const flaky = Object.assign(Object.create(store) as Store, {
    leaseGrant: (ttl: number) => store.leaseGrant(ttl),
    leaseKeepAlive: async (id: bigint) => {
      if (cut) throw new AppError("store.unavailable", "cut off");
      return store.leaseKeepAlive(id);
    },
  });
  const first = await stand("a", await session(flaky));
  const other = await session();
  let won = false;
  const second = stand("b", other).then((leadership) => ((won = true), leadership));
  await clock.advance(20_000);
  expect(first.signal.aborted).toBe(false);
  cut = true;
  for (let i = 0; i < 100 && !first.signal.aborted; i++) await clock.advance(100);
  expect(first.signal.aborted).toBe(true);
  expect(won).toBe(false);
  await clock.advance(4_000);
  const two = await second;
  const guarded = async (compare: ReturnType<typeof leads>): Promise<boolean> =>
    (
      await store.txn({
        compare: [compare],
        success: [{ type: "put", key: utf8("/work"), value: utf8("") }],
      })
    ).succeeded;
  expect(await guarded(leads(first))).toBe(false);
  expect(await guarded(leads(two))).toBe(true);
});

it("ends the session when its lease was revoked elsewhere", async () => {
  setUp();
  const own = await session();
  await store.leaseRevoke(own.lease);
  await clock.advance(4_000);
  expect(own.signal.aborted).toBe(true);
  await own.close();
});

it("stops standing when asked to, leaving no key behind", async () => {
  setUp();
  await stand("a", await session());
  const controller = new AbortController();
  const waiting = stand("b", await session(), controller.signal);
  await settle();
  controller.abort(new Error("no longer"));
  await expect(waiting).rejects.toThrow("no longer");
  expect((await store.range({ key: utf8(name), end: utf8("/leaders/ha0") })).count).toBe(1);
});

it("keeps standing through a store that is away for a moment", async () => {
  setUp();
  let failures = 3;
  const own = await session();
  const flaky = Object.assign(Object.create(store) as Store, {
    txn: async (request: Parameters<Store["txn"]>[0]) => {
      const answer = await store.txn(request);
      if (failures-- > 0) throw new AppError("store.unavailable", "answer lost");
      return answer;
    },
    range: (request: Parameters<Store["range"]>[0]) => store.range(request),
  });
  const won = campaign({ store: flaky, session: own, name, value: "a", clock });
  await clock.advance(2_000);
  const { token } = await won;
  expect((await store.range({ key: utf8(name), end: utf8("/leaders/ha0") })).kvs[0]?.createRevision).toBe(
    token,
  );
});
