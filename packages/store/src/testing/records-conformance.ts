// What every Records does, on a real store or without one.
import { expect, it } from "vitest";
import type { CollectionDef, Records } from "../records/port.ts";

interface Thing {
  readonly size: number;
}

const things: CollectionDef<Thing> = {
  prefix: "/gpve/things/",
  decode: (json) => {
    const { size } = json as Partial<Thing>;
    if (typeof size !== "number") throw new Error("a thing without a size");
    return { size };
  },
};
const others: CollectionDef<unknown> = { prefix: "/gpve/others/", decode: (json) => json };
/** The same records, written by who knows nothing of their shape. */
const raw: CollectionDef<unknown> = { prefix: things.prefix, decode: (json) => json };

export function recordsConformance(open: () => Promise<Records>): void {
  it("shows a write as soon as it is done, sorted by id, and what it was before", async () => {
    const records = await open();
    const collection = records.collection(things);
    expect(records.collection(things)).toBe(collection);
    const heard: unknown[] = [];
    const stop = collection.onChange((id, entry, previous) =>
      heard.push([id, entry?.value.size, previous?.value.size]),
    );
    const before = records.revision();
    await records.transact((tx) => {
      tx.put(things, "b", { size: 2 });
      tx.put(things, "a", { size: 1 });
      tx.put(others, "a", "not a thing");
    });
    expect(collection.list().map(({ id, value }) => [id, value.size])).toEqual([
      ["a", 1],
      ["b", 2],
    ]);
    expect(collection.get("c")).toBeUndefined();
    expect(records.revision()).toBeGreaterThan(before);
    await records.transact((tx) => tx.put(things, "a", { size: 3 }));
    await records.transact((tx) => tx.delete(things, "b"));
    // Those of one transaction come in any order.
    const expected = [
      ["a", 1, undefined],
      ["b", 2, undefined],
      ["a", 3, 1],
      ["b", undefined, 2],
    ];
    expect(heard).toEqual(expect.arrayContaining(expected));
    expect(heard.slice(2)).toEqual(expected.slice(2));
    stop();
    await records.transact((tx) => tx.delete(things, "a"));
    expect(heard).toHaveLength(4);
  });

  it("counts the versions of a record, and keeps when it was made", async () => {
    const records = await open();
    for (const size of [1, 2]) await records.transact((tx) => tx.put(things, "a", { size }));
    const entry = records.collection(things).get("a");
    expect(entry?.version).toBe(2);
    expect(entry?.revision).toBeGreaterThan(entry?.createRevision ?? Number.NaN);
  });

  it("gives the same list until something changes", async () => {
    const records = await open();
    await records.transact((tx) => tx.put(things, "a", { size: 1 }));
    const collection = records.collection(things);
    const list = collection.list();
    expect(collection.list()).toBe(list);
    expect(collection.get("a")).toBe(list[0]);
    expect(Object.isFrozen(list)).toBe(true);
    await records.transact((tx) => tx.put(others, "a", 1));
    expect(collection.list()).toBe(list);
    await records.transact((tx) => tx.put(things, "b", { size: 2 }));
    expect(collection.list()).not.toBe(list);
  });

  it("lets a transaction see what it has written, and nobody when it fails", async () => {
    const records = await open();
    await records.transact((tx) => tx.put(things, "a", { size: 1 }));
    const seen = await records.transact((tx) => {
      tx.put(things, "b", { size: 2 });
      tx.delete(things, "a");
      return [tx.get(things, "b")?.value.size, tx.has(things, "a"), tx.list(things).map(({ id }) => id)];
    });
    expect(seen).toEqual([2, false, ["b"]]);
    await expect(
      records.transact((tx) => {
        tx.put(things, "c", { size: 3 });
        throw new Error("changed my mind");
      }),
    ).rejects.toThrow("changed my mind");
    expect(records.collection(things).list()).toHaveLength(1);
    await records.fresh();
    expect(records.collection(things).get("c")).toBeUndefined();
  });

  it("hides no record behind one that cannot be read", async () => {
    const records = await open();
    await records.transact((tx) => {
      tx.put(raw, "bad", {});
      tx.put(things, "good", { size: 1 });
    });
    const collection = records.collection(things);
    expect(collection.list().map(({ id }) => id)).toEqual(["good"]);
    expect(() => collection.get("bad")).toThrow();
    expect(await records.transact((tx) => tx.has(things, "bad"))).toBe(true);
  });
}
