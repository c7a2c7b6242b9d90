import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { openStore } from "./open-store.ts";

const dir = mkdtempSync(join(tmpdir(), "gpve-open-"));
afterAll(() => rmSync(dir, { recursive: true }));

it("opens SQLite from configuration and tells the time of each operation", async () => {
  const seen: string[] = [];
  const store = await openStore(
    { type: "sqlite", path: join(dir, "store.db"), maxBytes: 1_000_000 },
    { observe: (operation, ok) => seen.push(`${operation} ${ok}`) },
  );
  expect(await store.revision()).toBe(1);
  await store.close();
  expect(seen).toEqual(["revision true"]);
});

it("opens etcd lazily and refuses what cannot be meant", async () => {
  const file = join(dir, "pem");
  writeFileSync(file, "x");
  const endpoints = ["https://127.0.0.1:1"];
  const store = await openStore({ type: "etcd", endpoints, caFile: file, certFile: file, keyFile: file });
  await store.close();
  const bad = async (extra: object) => openStore({ type: "etcd", endpoints, ...extra });
  await expect(bad({ endpoints: ["127.0.0.1:2379"] })).rejects.toThrow(/not of the form/);
  await expect(bad({ certFile: file })).rejects.toThrow(/both certFile and keyFile/);
  await expect(bad({ caFile: join(dir, "none") })).rejects.toThrow(/cannot read caFile/);
});
