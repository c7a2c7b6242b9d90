import { afterEach, describe, expect, it } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import type { Store, WatchBatch, WatchRequest } from "../port.ts";
import { utf8 } from "../keys.ts";
import type { CollectionDef, Records } from "./port.ts";
import { openRecords } from "./records.ts";

interface User {
  readonly name: string;
  readonly age?: number;
}

const users: CollectionDef<User> = {
  prefix: "/gpve/users/",
  decode: (json) => {
    if (typeof json !== "object" || json === null || !("name" in json)) throw new Error("no name");
    return json as User;
  },
};
const notes: CollectionDef<string> = {
  prefix: "/gpve/notes/",
  decode: (json) => (json as { text: string }).text,
  encode: (text) => ({ text }),
};

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) await close();
});

const logged: string[] = [];
const log = { error: (_fields: unknown, message: string) => void logged.push(message) };

function newStore(): Store {
  const store = openSqliteStore({ path: ":memory:" });
  closers.push(() => store.close());
  return store;
}

async function open(store: Store): Promise<Records> {
  const records = await openRecords(store, { prefix: "/gpve/", log });
  closers.push(() => records.close());
  return records;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

describe("records", () => {
  it("shows a write in the cache as soon as the transaction resolves", async () => {
    const records = await open(newStore());
    const all = records.collection(users);
    expect(records.collection(users)).toBe(all);
    await records.transact((tx) => tx.put(users, "ann", { name: "Ann" }));
    expect(all.get("ann")).toMatchObject({ id: "ann", value: { name: "Ann" }, version: 1 });
    await records.transact((tx) => tx.put(users, "ann", { name: "Anne" }));
    expect(all.get("ann")).toMatchObject({ value: { name: "Anne" }, version: 2 });
    await records.transact((tx) => tx.delete(users, "ann"));
    expect(all.get("ann")).toBeUndefined();
    expect(all.list()).toEqual([]);
  });

  it("finds what was stored before it was opened, sorted by bytes, as one shared frozen array", async () => {
    const store = newStore();
    const first = await open(store);
    await first.transact((tx) => {
      for (const id of ["b", "a", "\u{1f600}", "\uff5e", "B"]) tx.put(users, id, { name: id });
    });
    const second = await open(store);
    const list = second.collection(users).list();
    expect(list.map((entry) => entry.id)).toEqual(["B", "a", "b", "\uff5e", "\u{1f600}"]);
    expect(second.collection(users).list()).toBe(list);
    expect(Object.isFrozen(list) && Object.isFrozen(list[0]?.value)).toBe(true);
    await first.transact((tx) => tx.put(users, "aa", { name: "aa" }));
    await second.fresh();
    expect(
      second
        .collection(users)
        .list()
        .map((entry) => entry.id),
    ).toEqual(["B", "a", "aa", "b", "\uff5e", "\u{1f600}"]);
  });

  it("runs the change again when a record it read was changed meanwhile", async () => {
    const store = newStore();
    const [one, two] = [await open(store), await open(store)];
    await one.transact((tx) => tx.put(users, "n", { name: "n", age: 0 }));
    const increment = (records: Records): Promise<void> =>
      records.transact((tx) => {
        const age = tx.get(users, "n")?.value.age ?? 0;
        tx.put(users, "n", { name: "n", age: age + 1 });
      });
    await Promise.all(Array.from({ length: 40 }, (_, i) => increment(i % 2 === 0 ? one : two)));
    await one.fresh();
    expect(one.collection(users).get("n")?.value.age).toBe(40);
  });

  it("lets one of many creators of an absent record win", async () => {
    const store = newStore();
    const [one, two] = [await open(store), await open(store)];
    const create = (records: Records): Promise<boolean> =>
      records.transact((tx) => {
        if (tx.get(users, "new") !== undefined) return false;
        tx.put(users, "new", { name: "x" });
        return true;
      });
    const won = await Promise.all([create(one), create(two), create(one), create(two)]);
    expect(won.filter(Boolean)).toHaveLength(1);
  });

  it("notices insertions, changes and deletions in a collection it listed", async () => {
    const store = newStore();
    const [one, two] = [await open(store), await open(store)];
    await one.transact((tx) => {
      for (const id of ["a", "b", "c"]) tx.put(users, id, { name: id });
    });
    await two.fresh();
    const disturb = [
      () => two.transact((tx) => tx.put(users, "d", { name: "d" })),
      () => two.transact((tx) => tx.put(users, "a", { name: "changed" })),
      () => two.transact((tx) => tx.delete(users, "b")),
    ];
    for (const change of disturb) {
      let runs = 0;
      let disturbance: Promise<void> | undefined;
      await one.transact((tx) => {
        runs++;
        const count = tx.list(users).length;
        // The other one's write reaches the store first: both land in one batch, in this order.
        disturbance ??= change();
        tx.put(notes, "count", String(count));
      });
      await disturbance;
      await one.fresh();
      expect(runs).toBe(2);
      expect(one.collection(notes).get("count")?.value).toBe(String(one.collection(users).list().length));
    }
  });

  it("notices that a leased record of a listed collection has ended", async () => {
    const store = newStore();
    const records = await open(store);
    const { id } = await store.leaseGrant(60);
    await records.transact((tx) => tx.put(users, "temp", { name: "t" }, { lease: id }));
    let runs = 0;
    let revoked: Promise<void> | undefined;
    await records.transact((tx) => {
      runs++;
      const count = tx.list(users).length;
      revoked ??= store.leaseRevoke(id);
      tx.put(notes, "count", String(count));
    });
    await revoked;
    expect(runs).toBe(2);
    expect(records.collection(notes).get("count")?.value).toBe("0");
  });

  it("reads its own pending writes and passes on what the change throws", async () => {
    const records = await open(newStore());
    await records.transact((tx) => tx.put(users, "old", { name: "old" }));
    await records.transact((tx) => {
      tx.put(users, "new", { name: "new" });
      tx.delete(users, "old");
      expect(tx.get(users, "new")?.value.name).toBe("new");
      expect(tx.get(users, "old")).toBeUndefined();
      expect(tx.list(users).map((entry) => entry.id)).toEqual(["new"]);
    });
    const boom = new AppError("object.exists", "no");
    await expect(
      records.transact((tx) => {
        tx.put(users, "x", { name: "x" });
        throw boom;
      }),
    ).rejects.toBe(boom);
    expect(records.collection(users).get("x")).toBeUndefined();
    await expect(records.transact(async () => undefined)).rejects.toThrow(/asynchronous/);
    await expect(records.transact((tx) => tx.put(users, "", { name: "x" }))).rejects.toThrow(/needs an id/);
  });

  it("guards more reads than a transaction has comparisons for, and refuses too many writes", async () => {
    const store = newStore();
    const [one, two] = [await open(store), await open(store)];
    for (const half of [0, 1]) {
      await one.transact((tx) => {
        for (let i = 0; i < 100; i++) tx.put(users, `u${half}-${i}`, { name: "x" });
      });
    }
    let runs = 0;
    let other: Promise<void> | undefined;
    await one.transact((tx) => {
      runs++;
      for (let i = 0; i < 100; i++) for (const half of [0, 1]) tx.get(users, `u${half}-${i}`);
      other ??= two.transact((inner) => inner.delete(users, "u1-7"));
      tx.put(notes, "done", "x");
    });
    await other;
    expect(runs).toBe(2);
    await expect(
      one.transact((tx) => {
        for (let i = 0; i < 129; i++) tx.put(users, `w${i}`, { name: "x" });
      }),
    ).rejects.toMatchObject({ code: "request.too_large" });
  });

  it("tells listeners every change in order, with what was before", async () => {
    const records = await open(newStore());
    const told: string[] = [];
    const off = records.collection(users).onChange((id, entry, previous) => {
      told.push(`${id}: ${previous?.value.name ?? "-"} -> ${entry?.value.name ?? "-"}`);
    });
    records.collection(users).onChange(() => {
      throw new Error("bad listener");
    });
    await records.transact((tx) => tx.put(users, "a", { name: "1" }));
    await records.transact((tx) => {
      tx.put(users, "a", { name: "2" });
      tx.put(users, "b", { name: "1" });
    });
    await records.transact((tx) => tx.delete(users, "a"));
    off();
    await records.transact((tx) => tx.put(users, "c", { name: "1" }));
    expect(told).toEqual(["a: - -> 1", "a: 1 -> 2", "b: - -> 1", "a: 2 -> -"]);
    expect(logged).toContain("a listener of records failed");
  });

  it("names the record that cannot be decoded, and keeps going", async () => {
    const store = newStore();
    const records = await open(store);
    records.collection(users).onChange(() => undefined);
    await store.txn({
      compare: [],
      success: [{ type: "put", key: utf8("/gpve/users/bad"), value: utf8("{}") }],
    });
    await records.fresh();
    expect(() => records.collection(users).get("bad")).toThrow(/\/gpve\/users\/bad cannot be read: no name/);
    await records.transact((tx) => tx.put(users, "good", { name: "x" }));
    expect(records.collection(users).get("good")).toBeDefined();
  });

  it("lists what can be read beside a record that cannot, names that one once, and lets it be removed", async () => {
    const store = newStore();
    const put = (value: string): Promise<unknown> =>
      store.txn({
        compare: [],
        success: [{ type: "put", key: utf8("/gpve/users/bad"), value: utf8(value) }],
      });
    await put("{}");
    const errors: object[] = [];
    const records = await openRecords(store, {
      prefix: "/gpve/",
      log: { error: (fields: unknown) => void errors.push(fields as object) },
    });
    closers.push(() => records.close());
    await records.transact((tx) => tx.put(users, "good", { name: "x" }));
    const names = (): string[] =>
      records
        .collection(users)
        .list()
        .map(({ id }) => id);
    expect(names()).toEqual(["good"]);
    await records.transact((tx) => {
      expect(tx.list(users).map(({ id }) => id)).toEqual(["good"]);
      tx.put(users, "other", { name: "y" });
    });
    expect(names()).toEqual(["good", "other"]);
    expect(errors).toEqual([expect.objectContaining({ key: "/gpve/users/bad" })]);
    const strict = { ...users, allOrNothing: true as const };
    expect(() => records.collection(strict).list()).toThrow(/users\/bad cannot be read/);

    const told: string[] = [];
    records.collection(users).onChange((id, entry, previous) => {
      told.push(`${id}: ${previous?.value.name ?? "-"} -> ${entry?.value.name ?? "-"}`);
    });
    await records.transact((tx) => {
      expect([tx.has(users, "bad"), tx.has(users, "none")]).toEqual([true, false]);
      tx.delete(users, "bad");
    });
    await put('{"name":"mended"}');
    await put("[]");
    await records.fresh();
    expect(told).toEqual(["bad: - -> -", "bad: - -> mended", "bad: mended -> -"]);
  });

  it("is fresh after others wrote, inside its prefix or outside", async () => {
    const store = newStore();
    const [one, two] = [await open(store), await open(store)];
    await one.transact((tx) => tx.put(users, "a", { name: "1" }));
    await Promise.all([two.fresh(), two.fresh(), two.fresh()]);
    expect(two.collection(users).get("a")).toBeDefined();
    await store.txn({ compare: [], success: [{ type: "put", key: utf8("/other"), value: utf8("") }] });
    await two.fresh();
    expect(two.revision()).toBe(await store.revision());
  });

  it("shares one read of the revision among all who wait for it", async () => {
    const store = newStore();
    let reads = 0;
    const counted = withStore(store, { revision: () => (reads++, store.revision()) });
    const records = await open(counted);
    await Promise.all(Array.from({ length: 100 }, () => records.fresh()));
    expect(reads).toBe(1);
  });

  it("lets one caller of a shared read give up while the others wait on", async () => {
    const store = newStore();
    const slow = Promise.withResolvers<number>();
    const records = await open(withStore(store, { revision: () => slow.promise }));
    const controller = new AbortController();
    const impatient = records.fresh({ signal: controller.signal });
    const patient = records.fresh();
    controller.abort(new Error("enough"));
    await expect(impatient).rejects.toThrow("enough");
    await expect(records.fresh({ signal: controller.signal })).rejects.toThrow("enough");
    slow.resolve(await store.revision());
    await patient;
  });

  it("asks the store when the watch stays silent, and believes only a matching answer", async () => {
    const store = newStore();
    // A watch that never tells of progress, as etcd's.
    const silent = withStore(store, { watch: (request) => store.watch({ ...request, progress: false }) });
    const records = await open(silent);
    await records.transact((tx) => tx.put(users, "a", { name: "1" }));
    await store.txn({ compare: [], success: [{ type: "put", key: utf8("/other"), value: utf8("") }] });
    await records.fresh();
    expect(records.revision()).toBe(await store.revision());
  });

  it("lists again after a gap and tells listeners the difference", async () => {
    const store = newStore();
    const cut = cuttable(store);
    const records = await open(cut.store);
    await records.transact((tx) => {
      for (const id of ["stays", "goes", "changes"]) tx.put(users, id, { name: "1" });
    });
    const told: string[] = [];
    records.collection(users).onChange((id, entry, previous) => {
      told.push(`${id}: ${previous?.value.name ?? "-"} -> ${entry?.value.name ?? "-"}`);
    });
    cut.down();
    const direct = await open(store);
    await direct.transact((tx) => {
      tx.delete(users, "goes");
      tx.put(users, "changes", { name: "2" });
      tx.put(users, "comes", { name: "1" });
    });
    await direct.transact((tx) => tx.put(users, "late", { name: "1" }));
    await store.compact(await store.revision());
    expect(records.collection(users).get("goes")).toBeDefined();
    cut.up();
    await until(() => told.length === 4);
    expect(told.toSorted()).toEqual(["changes: 1 -> 2", "comes: - -> 1", "goes: 1 -> -", "late: - -> 1"]);
    await records.transact((tx) => tx.put(users, "after", { name: "1" }));
    expect(records.collection(users).get("after")).toBeDefined();
  });

  it("goes on from where it was when the watch fails, without telling anything twice", async () => {
    const store = newStore();
    const cut = cuttable(store);
    const records = await open(cut.store);
    const told: string[] = [];
    records.collection(users).onChange((id) => told.push(id));
    await records.transact((tx) => tx.put(users, "a", { name: "1" }));
    cut.down();
    await (await open(store)).transact((tx) => tx.put(users, "b", { name: "1" }));
    cut.up();
    await until(() => told.length === 2);
    await records.transact((tx) => tx.put(users, "c", { name: "1" }));
    expect(told).toEqual(["a", "b", "c"]);
  });

  it("waits for a store that is not there yet, and gives up in time", async () => {
    const store = newStore();
    let tries = 0;
    const late = withStore(store, {
      range: (request) => {
        if (++tries < 3) throw new AppError("store.unavailable", "not yet");
        return store.range(request);
      },
    });
    await open(late);
    expect(tries).toBe(3);
    const never = withStore(store, {
      range: async () => {
        throw new AppError("store.unavailable", "never");
      },
    });
    await expect(openRecords(never, { prefix: "/gpve/", log, startTimeoutMs: 50 })).rejects.toThrow("never");
    await expect(openRecords(store, { prefix: "/gpve", log })).rejects.toThrow(/must end with/);
  });

  it("refuses collections outside its prefix", async () => {
    const records = await open(newStore());
    expect(() => records.collection({ ...users, prefix: "/else/" })).toThrow(/below/);
  });

  it("stays quick with twenty thousand records", async () => {
    const store = newStore();
    for (let i = 0; i < 20_000; i += 100) {
      await store.txn({
        compare: [],
        success: Array.from({ length: 100 }, (_, n) => ({
          type: "put" as const,
          key: utf8(`/gpve/users/${String(i + n).padStart(6, "0")}`),
          value: utf8(`{"name":"user ${i + n}"}`),
        })),
      });
    }
    const records = await open(store);
    expect(records.collection(users).list()).toHaveLength(20_000);
    const started = process.cpuUsage().user / 1000;
    for (let i = 0; i < 20; i++) {
      await records.transact((tx) => tx.put(users, "019999x", { name: String(i) }));
      expect(records.collection(users).list()).toHaveLength(20_001);
    }
    expect(process.cpuUsage().user / 1000 - started).toBeLessThan(2_000);
  });
});

function withStore(store: Store, override: Partial<Store>): Store {
  return {
    range: (...args) => store.range(...args),
    txn: (...args) => store.txn(...args),
    watch: (request) => store.watch(request),
    revision: (options) => store.revision(options),
    compact: (...args) => store.compact(...args),
    leaseGrant: (...args) => store.leaseGrant(...args),
    leaseKeepAlive: (id) => store.leaseKeepAlive(id),
    leaseRevoke: (id) => store.leaseRevoke(id),
    leaseStatus: (id) => store.leaseStatus(id),
    leases: () => store.leases(),
    close: () => store.close(),
    ...override,
  };
}

/** A store whose watches can be made to fail. */
function cuttable(store: Store): { store: Store; down(): void; up(): void } {
  let broken = new AbortController();
  async function* watch(request: WatchRequest): AsyncGenerator<WatchBatch> {
    const { signal } = broken;
    if (signal.aborted) throw new AppError("store.unavailable", "cut");
    const both = AbortSignal.any([signal, request.signal]);
    yield* store.watch({ ...request, signal: both });
    if (signal.aborted) throw new AppError("store.unavailable", "cut");
  }
  return {
    store: withStore(store, {
      watch: (request) => Object.assign(watch(request), { requestProgress: () => undefined }),
    }),
    down: () => broken.abort(),
    up: () => {
      broken = new AbortController();
    },
  };
}
