import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { DatabaseSync } from "node:sqlite";
import { given } from "@gpve/contracts/given.ts";
import { afterAll, afterEach, expect, it } from "vitest";
import type { Store } from "../port.ts";
import { utf8 } from "../keys.ts";
import { openSqliteStore } from "../sqlite/sqlite-store.ts";
import { backupStore, migrateStore, restoreBackup, verifyBackup } from "./backup.ts";
import { contentsOf } from "./digest.ts";
import { verifySqlite } from "./verify-sqlite.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-backup-"));
let files = 0;
const file = (): string => join(dir, `f${++files}`);
const stores: Store[] = [];
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});
afterAll(() => rmSync(dir, { recursive: true }));

function newStore(path = ":memory:", maxBytes?: number): Store {
  const store = openSqliteStore({ path, ...given({ maxBytes }) });
  stores.push(store);
  return store;
}

async function filled(keys = 2_500): Promise<Store> {
  const store = newStore();
  for (let i = 0; i < keys; i += 100) {
    await store.txn({
      compare: [],
      success: Array.from({ length: 100 }, (_, n) => ({
        type: "put" as const,
        key: Uint8Array.of(1, (i + n) >> 8, (i + n) & 255),
        value: utf8(`value ${i + n}`),
      })),
    });
  }
  return store;
}

it("backs up, verifies and restores the same contents", async () => {
  const store = await filled();
  const { id } = await store.leaseGrant(60);
  await store.txn({
    compare: [],
    success: [{ type: "put", key: utf8("/alive"), value: utf8("x"), lease: id }],
  });
  const path = file();
  const seen: number[] = [];
  const info = await backupStore(store, path, { onProgress: (keys) => seen.push(keys) });
  expect(info).toMatchObject({ count: 2_500, revision: await store.revision() });
  expect(seen).toEqual([1_000, 2_000]);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  expect(await verifyBackup(path)).toEqual(info);
  const target = newStore();
  expect(await restoreBackup(path, target)).toEqual(info);
  expect(await contentsOf(target)).toEqual(await contentsOf(store));
  await expect(restoreBackup(path, target)).rejects.toMatchObject({ code: "object.exists" });
});

it("shows one revision although others go on writing", async () => {
  const store = await filled();
  const before = await contentsOf(store);
  const stream = new PassThrough();
  const chunks: Buffer[] = [];
  stream.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    void store.txn({
      compare: [],
      success: [{ type: "put", key: Uint8Array.of(1, 9, 0), value: utf8("later") }],
    });
  });
  const info = await backupStore(store, stream);
  stream.end();
  expect(info.sha256).toBe(before.sha256);
  const path = file();
  writeFileSync(path, Buffer.concat(chunks));
  expect(await verifyBackup(path)).toEqual(info);
});

it("refuses files that are cut off, changed, foreign, newer or absent", async () => {
  const store = await filled(300);
  const path = file();
  await backupStore(store, path);
  const text = readFileSync(path, "utf8");
  const lines = text.split("\n");
  const refuses = async (content: string, message: RegExp): Promise<void> => {
    const bad = file();
    writeFileSync(bad, content);
    await expect(verifyBackup(bad)).rejects.toThrow(message);
    const target = newStore();
    await expect(restoreBackup(bad, target)).rejects.toThrow(message);
    expect((await contentsOf(target)).count).toBe(0);
  };
  await refuses(text.slice(0, text.length / 2), /damaged: line \d+ cannot be read/);
  await refuses(`${lines.slice(0, 100).join("\n")}\n`, /cut off after 100 lines/);
  await refuses(text.replace(/("value":")../, "$1AA"), /checksum/);
  await refuses([...lines.slice(0, 5), ...lines.slice(6)].join("\n"), /checksum/);
  await refuses([lines[0], lines[2], lines[1], ...lines.slice(3)].join("\n"), /out of order/);
  await refuses(`${text}{}\n`, /more after its end/);
  await refuses(text.replace(/"createdAt":"2/, '"createdAt":"3'), /checksum/);
  await refuses(text.replace(/\{"key"/, '{"kex"'), /line 2 is no record/);
  await refuses(text.replace('"version":1', '"version":2'), /format 2/);
  await refuses(text.replace(/,"revision":\d+/, ""), /header is incomplete/);
  await refuses("", /is empty/);
  await refuses("hello\n", /not a backup/);
  await refuses('{"format":"other"}\n', /not a backup/);
  await expect(verifyBackup(join(dir, "none"))).rejects.toMatchObject({ code: "object.not_found" });
});

it("leaves no half-written backup behind", async () => {
  const store = await filled(300);
  await expect(backupStore(store, join(dir, "no", "such", "dir"))).rejects.toMatchObject({
    code: "operation.failed",
  });
  const path = file();
  const cancelled = AbortSignal.abort(new Error("stop"));
  await expect(backupStore(store, path, { signal: cancelled })).rejects.toMatchObject({
    code: "operation.cancelled",
  });
  expect(readdirSync(dir).filter((name) => path.endsWith(name) || name.endsWith(".partial"))).toEqual([]);
});

it("migrates everything to an empty store and proves it", async () => {
  const from = await filled();
  const path = join(dir, "migrated.db");
  const to = newStore(path);
  expect(await migrateStore(from, to)).toEqual(await contentsOf(from));
  await expect(migrateStore(from, to)).rejects.toMatchObject({ code: "object.exists" });
  await to.close();
  expect(verifySqlite(path)).toMatchObject({ problems: [], keys: 2_500 });
});

it("empties the target again when the source changes or the target is full", async () => {
  const from = await filled();
  const to = newStore();
  let changed = false;
  const moving = Object.assign(Object.create(to) as Store, {
    range: (...args: Parameters<Store["range"]>) => to.range(...args),
    txn: async (...args: Parameters<Store["txn"]>) => {
      if (!changed) {
        changed = true;
        await from.txn({ compare: [], success: [{ type: "put", key: utf8("new"), value: utf8("x") }] });
      }
      return to.txn(...args);
    },
  });
  await expect(migrateStore(from, moving)).rejects.toMatchObject({ code: "object.conflict" });
  expect((await contentsOf(to)).count).toBe(0);
  const small = newStore(join(dir, "small.db"), 120_000);
  await expect(migrateStore(from, small)).rejects.toThrow(/full|discard/);
});

it("finds what is wrong inside a SQLite store", async () => {
  const path = join(dir, "checked.db");
  const store = newStore(path);
  for (let i = 0; i < 5; i++) {
    await store.txn({ compare: [], success: [{ type: "put", key: utf8("/a"), value: utf8(String(i)) }] });
  }
  await store.txn({ compare: [], success: [{ type: "put", key: utf8("/b"), value: utf8("") }] });
  await store.txn({ compare: [], success: [{ type: "delete", key: utf8("/b") }] });
  expect(() => verifySqlite(path)).toThrow(/in use/);
  await store.close();
  expect(verifySqlite(path)).toMatchObject({ problems: [], revision: 8, keys: 1, compactRevision: 0 });
  const harm = (sql: string): void => {
    const db = new DatabaseSync(path);
    db.exec(sql);
    db.close();
  };
  harm("UPDATE history SET lease = '7' WHERE version = 5; UPDATE meta SET value = 3 WHERE name = 'revision'");
  expect(verifySqlite(path).problems).toEqual([
    "5 versions newer than the store's revision",
    "1 keys tied to a lease that does not exist",
  ]);
  harm("DELETE FROM live");
  expect(verifySqlite(path).problems).toContain("1 versions that should be shown but are not");
  expect(() => verifySqlite(join(dir, "none.db"))).toThrow(/no store/);
  writeFileSync(join(dir, "text.db"), "not a database at all, but long enough to be one".repeat(100));
  expect(() => verifySqlite(join(dir, "text.db"))).toThrow(/damaged/);
});
