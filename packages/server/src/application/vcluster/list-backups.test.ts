import { expect, test } from "vitest";
import type { VclusterBackupRow } from "@gpve/contracts/agent/vcluster-save-messages.ts";
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { type StorageDefinition, storageCollection } from "@gpve/domain/storage/definition.ts";
import type { VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openQuotaServer } from "../../testing/quota-world.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { listLeftBackups, storagesAway } from "./list-backups.ts";

const definition = (storage: string, content: string, more: object = {}): StorageDefinition => ({
  storage,
  type: "dir",
  options: { path: `/${storage}`, content, ...more },
});

async function world(rows: readonly VclusterBackupRow[] = []) {
  const node = { node: "n1", call: () => Promise.reject(new Error("not asked")) };
  const store = openSqliteStore({ path: ":memory:" });
  const server = await openQuotaServer(store, { owner: "s1", clock: new FakeClock(1_000_000), node });
  await server.records.transact((tx) => {
    for (const each of [
      definition("nas", "backup,iso"),
      definition("slow", "backup", { nodes: "n2" }),
      definition("discs", "images"),
      definition("local", "backup"),
    ])
      tx.put(storageCollection, each.storage, each);
  });
  const storages = [
    ...["nas", "slow", "discs"].map((storage) => ({ storage, active: false })),
    { storage: "local", active: true },
  ];
  const view = { node: "n1", health: "online", report: { storages } };
  const board = { list: () => [view], get: () => view } as unknown as NodeBoard;
  return {
    deps: { records: server.records, board, calls: { call: async () => ({ data: rows }) as never } },
    close: () => server.close(),
  };
}

const ctx = {} as RequestContext;
const gone = { name: "gone", tenant: "a" };

test("storages that may have backups and are away are named, and no others", async () => {
  const { deps, close } = await world();
  const record = { name: "demo", tenant: "a", node: "n1" } as VirtualClusterRecord;
  expect(storagesAway(deps, record)).toEqual(["nas"]);
  expect(storagesAway(deps, undefined)).toEqual(["nas"]);
  await close();
});

test("of a cluster that is gone it is not said that it has none while a storage is away", async () => {
  const row = { archive: "local:backup/x", sizeBytes: 1, time: 1 };
  const some = await world([row]);
  expect(await listLeftBackups(some.deps, gone, ctx)).toEqual([row]);
  await some.close();
  const none = await world();
  await expect(listLeftBackups(none.deps, gone, ctx)).rejects.toThrow("n1: storage nas is away");
  await none.close();
});
