import { beforeEach, describe, expect, it } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { AccessView, RequestContext } from "@gpve/domain/request/context.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { MemoryRecords } from "../../testing/memory-records.ts";
import { poolsDef } from "@gpve/domain/access/collections.ts";
import { tenantAdapter } from "./adapters/tenant.ts";
import { KindCache } from "./kind-cache.ts";
import { metaCollection } from "./object-meta.ts";
import { watchObjects } from "./watch-objects.ts";
import type { WatchItem } from "./watch-objects.ts";

const everything: AccessView = { privileges: () => new Map(), has: () => true, require: () => undefined };

describe("the changes of a kind", () => {
  let records: MemoryRecords;
  let cache: KindCache;
  const put = (name: string, comment = "") =>
    records.transact((tx) => tx.put(poolsDef, name, { poolid: name, vms: [], storage: [], comment }));
  beforeEach(async () => {
    records = new MemoryRecords();
    await put("old");
    cache = new KindCache(tenantAdapter(), records, 4);
  });

  it("show in the list at once and are numbered", async () => {
    const from = records.revision();
    expect(cache.list().map((object) => object.metadata.name)).toEqual(["old"]);
    await put("a");
    await records.transact((tx) =>
      tx.put(metaCollection, "Tenant/a", { labels: { x: "1" }, annotations: {}, createdAt: 0 }),
    );
    await records.transact((tx) =>
      tx.put(metaCollection, "User/a", { labels: {}, annotations: {}, createdAt: 0 }),
    );
    expect(cache.get("a")?.metadata.labels).toEqual({ x: "1" });
    expect(cache.list()).toBe(cache.list());
    const start = cache.positionAfter(from);
    expect(cache.changeAt(start)).toMatchObject({ before: undefined, after: { metadata: { name: "a" } } });
    expect(cache.end() - start).toBe(2);
    expect(cache.changeAt(cache.end())).toBeUndefined();
    await records.transact((tx) => tx.delete(poolsDef, "a"));
    expect(cache.changeAt(cache.end() - 1)).toMatchObject({ after: undefined });
  });

  it("are dropped when there are too many, and asking for those is a gap", async () => {
    const from = records.revision();
    const position = cache.positionAfter(from);
    for (let i = 0; i < 10; i++) await put("a", String(i));
    for (const ask of [() => cache.positionAfter(from), () => cache.changeAt(position)]) {
      try {
        ask();
        expect.unreachable();
      } catch (err) {
        expect(isAppError(err, "store.compacted")).toBe(true);
      }
    }
    cache.close();
    await put("b");
    expect(cache.get("b")).toBeUndefined();
  });

  it("are not queued for a watcher that does not read: it is told of its gap", async () => {
    const abort = new AbortController();
    const ctx = {
      actor: { userid: "a@pve", authid: "a@pve" },
      access: everything,
      signal: abort.signal,
    } as RequestContext;
    const items: AsyncGenerator<WatchItem> = watchObjects(
      {
        records,
        clock: systemClock,
        cache,
        past: async () => [],
        accessEpoch: () => 0,
        onAccessChange: () => () => undefined,
        revalidate: () => Promise.resolve(everything),
      },
      { selection: { labels: [], fields: [] }, ctx },
    );
    expect((await items.next()).value).toMatchObject({ type: "ADDED" });
    expect((await items.next()).value).toMatchObject({ type: "BOOKMARK" });
    for (let i = 0; i < 10; i++) await put("a", String(i));
    await expect(items.next()).rejects.toMatchObject({ code: "store.compacted" });
  });
});
