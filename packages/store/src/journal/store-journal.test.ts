import { AppError } from "@gpve/contracts/errors.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { journalConformance, testRecord } from "@gpve/kit/testing/journal-conformance.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { describe, expect, it } from "vitest";
import { utf8 } from "../keys.ts";
import type { Store, TxnRequest } from "../port.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { StoreJournal } from "./store-journal.ts";

const prefix = "/gpve/operations/";
const never = new AbortController().signal;

for (const leaseSeconds of [undefined, 10])
  journalConformance(`SQLite, ${leaseSeconds === undefined ? "no lease" : "lease"}`, async () => {
    const store = openSqliteStore({ path: ":memory:" });
    const lease = leaseSeconds === undefined ? {} : { leaseSeconds };
    return {
      another: () => new StoreJournal({ store, clock: systemClock, prefix, ...lease }),
      close: () => store.close(),
    };
  });

describe("claims under a lease", () => {
  const setup = (change: (store: Store) => Store = (store) => store) => {
    const clock = new FakeClock();
    const store = openSqliteStore({ path: ":memory:", clock });
    const used = change(store);
    const journal = new StoreJournal({ store: used, clock, prefix, leaseSeconds: 9 });
    return { clock, store, journal };
  };

  it("are kept while the owner lives and pass on when it gives them up", async () => {
    const { clock, store, journal } = setup();
    const first = await journal.claim("a", never);
    const waiting = journal.claim("b", never);
    await clock.advance(60_000);
    expect(first.lost.aborted).toBe(false);
    await first.release();
    await clock.advance(1_000);
    const second = await waiting;
    await second.write(testRecord(1));
    await second.release();
    await store.close();
  });

  it("are lost by the owner's own clock when the store does not answer", async () => {
    const { clock, store, journal } = setup((inner) =>
      Object.assign(Object.create(inner) as Store, {
        leaseKeepAlive: () => new Promise<number>(() => {}),
        range: inner.range.bind(inner),
        txn: inner.txn.bind(inner),
        leaseGrant: inner.leaseGrant.bind(inner),
      }),
    );
    const session = await journal.claim("a", never);
    await clock.advance(8_000);
    expect(session.lost.aborted).toBe(false);
    await clock.advance(1_001);
    expect(session.lost.aborted).toBe(true);
    await expect(session.write(testRecord(1))).rejects.toThrow("could not be renewed in time");
    await store.close();
  });

  it("survive a failing renewal but not the end of the lease", async () => {
    const errors = [new AppError("store.unavailable", "away"), new AppError("object.not_found", "gone")];
    const { clock, store, journal } = setup((inner) =>
      Object.assign(Object.create(inner) as Store, {
        leaseKeepAlive: () => Promise.reject(errors.shift() ?? new Error("unexpected")),
        range: inner.range.bind(inner),
        txn: inner.txn.bind(inner),
        leaseGrant: inner.leaseGrant.bind(inner),
      }),
    );
    const session = await journal.claim("a", never);
    await clock.advance(3_001);
    expect(session.lost.aborted).toBe(false);
    await clock.advance(3_001);
    expect(session.lost.aborted).toBe(true);
    await store.close();
  });
});

describe("writes", () => {
  it("go together while one is under way, and one that is refused does not take the others along", async () => {
    const inner = openSqliteStore({ path: ":memory:" });
    const sizes: number[] = [];
    const store = Object.assign(Object.create(inner) as Store, {
      range: inner.range.bind(inner),
      txn: (request: TxnRequest) => {
        sizes.push(request.success.length);
        const isPoisoned = request.success.some(
          (op) => op.type === "put" && Buffer.from(op.value).includes("poison"),
        );
        return isPoisoned ? Promise.reject(new Error("refused")) : inner.txn(request);
      },
    });
    const journal = new StoreJournal({ store, clock: systemClock, prefix });
    const session = await journal.claim("a", never);
    sizes.length = 0;
    const numbers = Array.from({ length: 150 }, (_, n) => n + 1);
    await Promise.all(numbers.map((n) => session.write(testRecord(n))));
    expect(sizes.length).toBeLessThan(10);
    const results = await Promise.allSettled(
      [1, 2, 3, 4].map((n) => session.write(testRecord(n, { error: n === 3 ? "poison" : "fine" }))),
    );
    expect(results.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
    await session.release();
    await inner.close();
  });

  it("number from where they are told, and a record of another shape is refused", async () => {
    const store = openSqliteStore({ path: ":memory:" });
    const journal = new StoreJournal({ store, clock: systemClock, prefix, numberFrom: 0x8000_0000 });
    const session = await journal.claim("a", never);
    expect((await session.load()).lastSequence).toBe(0x8000_0000);
    await store.txn({
      compare: [],
      success: [{ type: "put", key: utf8(`${prefix}op/1`), value: utf8('{"id":1}') }],
    });
    await expect(session.load()).rejects.toThrow("not an operation record");
    await session.release();
    await store.close();
  });

  it("forget the history of a store of their own", async () => {
    const store = openSqliteStore({ path: ":memory:" });
    const journal = new StoreJournal({ store, clock: systemClock, prefix, compactEvery: 3 });
    const session = await journal.claim("a", never);
    for (let n = 1; n <= 4; n++) await session.write(testRecord(n));
    await expect(store.range({ key: utf8(prefix), revision: 1 })).rejects.toMatchObject({
      code: "store.compacted",
    });
    await store.close();
    await expect(session.write(testRecord(5))).rejects.toThrow();
    await session.release();
  });
});
