import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import { backupStore, restoreBackup } from "../backup/backup.ts";
import { contentsOf } from "../backup/digest.ts";
import { listenEtcd } from "../etcd-server/listen.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { openSocketStore } from "./socket-store.ts";

const folder = mkdtempSync(join(tmpdir(), "gpve-socket-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a store behind a socket is saved and filled like any other", async () => {
  const path = join(folder, "etcd.sock");
  const below = openSqliteStore({ path: join(folder, "state.db"), clock: systemClock });
  const listener = await listenEtcd({ store: below, name: "demo", listen: { path }, clock: systemClock });
  const store = openSocketStore(path);
  const key = new TextEncoder().encode("/registry/configmaps/default/a");
  await store.txn({ compare: [], success: [{ type: "put", key, value: Uint8Array.of(1, 2, 3) }] });
  const saved = await backupStore(store, join(folder, "save.jsonl"));
  expect(saved.count).toBe(1);
  await store.txn({ compare: [], success: [{ type: "delete", key }] });
  await restoreBackup(join(folder, "save.jsonl"), store);
  expect(await contentsOf(below)).toEqual({ count: 1, sha256: saved.sha256 });
  await store.close();
  await listener.close();
  await below.close();
});

test("a socket that nobody serves is told with its path", async () => {
  const store = openSocketStore(join(folder, "none.sock"), { deadlineMs: 50 });
  await expect(store.revision()).rejects.toThrow(/none\.sock/);
  await store.close();
});
