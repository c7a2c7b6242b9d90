import { describe, expect, it } from "vitest";
import { openRecords } from "@gpve/store/records/records.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { aclDef, poolsDef } from "@gpve/domain/access/collections.ts";
import { createKindAdapters } from "./kind-adapters.ts";
import { objectsFromHistory } from "./history.ts";
import { metaCollection } from "./object-meta.ts";
import { OverlayTx } from "./overlay-tx.ts";
import { quietKinds } from "../../testing/quiet-kinds.ts";

const adapters = createKindAdapters({
  board: { list: () => [], get: () => undefined, generation: () => 0 },
  ...quietKinds,
  ownNode: () => undefined,
});
const adapterOf = (kind: string) => {
  const found = adapters.find((adapter) => adapter.kind.kind === kind);
  if (found === undefined) throw new Error(kind);
  return found;
};

describe("the past", () => {
  it("shows objects as they were, labels included, and says when it is gone", async () => {
    const store = openSqliteStore({ path: ":memory:" });
    const records = await openRecords(store, { prefix: "/gpve/", log: { error: () => undefined } });
    const pool = (poolid: string) => ({ poolid, vms: [100], storage: [] });
    await records.transact((tx) => {
      tx.put(poolsDef, "a", pool("a"));
      tx.put(metaCollection, "Tenant/a", { labels: { x: "1" }, annotations: {}, createdAt: 7 });
      tx.put(aclDef, "/:user:root@pam:PVEAdmin", {
        path: "/",
        type: "user" as const,
        ugid: "root@pam",
        roleid: "PVEAdmin",
        propagate: true,
      });
    });
    const then = records.revision();
    await records.transact((tx) => {
      tx.delete(poolsDef, "a");
      tx.put(poolsDef, "b", pool("b"));
    });
    const at = objectsFromHistory(store);
    const { signal } = new AbortController();
    expect(await at(adapterOf("Tenant"), then, signal)).toMatchObject([
      {
        metadata: { name: "a", labels: { x: "1" }, creationTimestamp: new Date(7).toISOString() },
        status: { guests: [100] },
      },
    ]);
    expect(await at(adapterOf("Tenant"), records.revision(), signal)).toMatchObject([
      { metadata: { name: "b" } },
    ]);
    for (const adapter of adapters) await at(adapter, then, signal);
    await store.compact(records.revision());
    await expect(at(adapterOf("Tenant"), then, signal)).rejects.toMatchObject({ code: "store.compacted" });
    await records.close();
    await store.close();
  });
});

describe("a transaction over another reader", () => {
  it("shows its own writes and keeps them to itself", () => {
    const stored = {
      id: "b",
      value: { poolid: "b", vms: [], storage: [] },
      createRevision: 3,
      revision: 4,
      version: 2,
    };
    const below = {
      get: (_def: unknown, id: string) => (id === "b" ? stored : undefined),
      list: () => [stored],
    };
    const tx = new OverlayTx(below as never);
    expect(tx.list(poolsDef)).toEqual([stored]);
    tx.put(poolsDef, "c", { poolid: "c", vms: [], storage: [] });
    tx.put(poolsDef, "b", { poolid: "b", vms: [1], storage: [] });
    expect(tx.get(poolsDef, "b")).toMatchObject({
      createRevision: 3,
      revision: 0,
      version: 3,
      value: { vms: [1] },
    });
    expect(tx.list(poolsDef).map((entry) => entry.id)).toEqual(["b", "c"]);
    tx.delete(poolsDef, "b");
    expect(tx.get(poolsDef, "b")).toBeUndefined();
    expect(tx.list(poolsDef).map((entry) => entry.id)).toEqual(["c"]);
  });
});
