import { afterEach, beforeEach, expect, test } from "vitest";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { createLogger } from "@gpve/kit/logger.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { openRecords } from "@gpve/store/records/records.ts";
import { keepDeclaredStorages } from "./declared-storages.ts";
import { keepStorageDefaults } from "./keep-storage-defaults.ts";
import { StorageDefinitions } from "./storage-definitions.ts";
import { storageDefaults } from "@gpve/domain/cluster/storage-defaults.ts";

let store: ReturnType<typeof openSqliteStore>;
let records: Awaited<ReturnType<typeof openRecords>>;
const log = createLogger({ component: "test", level: "error" });
beforeEach(async () => {
  store = openSqliteStore({ path: ":memory:" });
  records = await openRecords(store, { prefix: "/gpve/", log });
});
afterEach(async () => {
  await records.close();
  await store.close();
});

const thin = (vgname = "vg"): StorageDefinition => ({
  storage: "local-lvm",
  type: "lvmthin",
  options: { vgname, thinpool: "data" },
});

test("what nodes declare is defined for them, and not for others", async () => {
  const storages = new StorageDefinitions(records);
  let nodes: NodeView[] = [];
  const listeners = new Set<() => void>();
  const warned: string[] = [];
  const stop = keepDeclaredStorages({
    records,
    storages,
    board: {
      list: () => nodes,
      onChange: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
    },
    log: { ...log, warn: (fields: { err?: string }) => warned.push(fields.err ?? "") } as never,
  });
  const say = async (...said: [string, ...StorageDefinition[]][]): Promise<unknown> => {
    nodes = said.map(([node, ...declaredStorages]) => ({ node, report: { declaredStorages } }) as never);
    for (const listener of listeners) listener();
    await new Promise((done) => setTimeout(done, 50));
    return storages
      .definitions()
      .map(({ storage, options }) => [storage, options["nodes"], options["vgname"]]);
  };
  expect(await say(["n1", thin()])).toEqual([["local-lvm", "n1", "vg"]]);
  expect(await say(["n1", thin()], ["n2", thin()])).toEqual([["local-lvm", "n1,n2", "vg"]]);
  // A node cannot take a name that others use for something else, nor speak for others.
  const evil = { ...thin(), storage: "other", options: { ...thin().options, nodes: "n1" } };
  expect(await say(["n3", thin("its-own"), evil])).toEqual([
    ["local-lvm", "n1,n2", "vg"],
    ["other", "n3", "vg"],
  ]);
  expect(warned).toEqual([expect.stringContaining("choose another name, or the same settings")]);
  stop();
});

test("storage.defaults of a server hold for the cluster, and go when they are taken out", async () => {
  await keepStorageDefaults(records, { vmDisk: "fast", backup: "nfs" }, log);
  expect(storageDefaults(records)).toEqual({ vmDisk: "fast", backup: "nfs" });
  await keepStorageDefaults(records, {}, log);
  expect(storageDefaults(records)).toEqual({});
});
