import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
import { openSocketStore } from "../etcd/socket-store.ts";
import { prefixEnd, utf8 } from "../keys.ts";
import { ManyStores } from "./many-stores.ts";

let folder: string;
let stores: ManyStores;
const said: string[] = [];
beforeEach(async () => {
  said.length = 0;
  folder = mkdtempSync(join(tmpdir(), "gpve-stores-"));
  stores = new ManyStores({ folder, clock: systemClock, say: (line) => said.push(line) });
  await stores.start();
});
afterEach(async () => {
  await stores.close();
  rmSync(folder, { recursive: true, force: true });
});

function want(name: string): void {
  for (const kind of ["db", "sock"]) mkdirSync(join(folder, kind, name), { recursive: true });
  writeFileSync(join(folder, "serve", name), "");
}

test("serves what is asked for by a file, and no longer when the file is gone", async () => {
  want("a");
  want("b");
  await expect.poll(() => stores.names, { timeout: 20_000 }).toEqual(["a", "b"]);
  expect(existsSync(join(folder, "sock", "a", "etcd.sock"))).toBe(true);
  rmSync(join(folder, "serve", "a"));
  await expect.poll(() => stores.names, { timeout: 20_000 }).toEqual(["b"]);
  expect(existsSync(join(folder, "sock", "a", "etcd.sock"))).toBe(false);
  expect(existsSync(join(folder, "db", "a", "state.db"))).toBe(true);
});

test("none grows without end, and one that is full serves on", async () => {
  await stores.close();
  const maxBytes = 512 * 1024;
  stores = new ManyStores({ folder, clock: systemClock, say: (line) => said.push(line), maxBytes });
  await stores.start();
  want("a");
  await expect.poll(() => stores.names, { timeout: 20_000 }).toEqual(["a"]);
  const store = openSocketStore(join(folder, "sock", "a", "etcd.sock"));
  try {
    const put = (at: number) => {
      const op = { type: "put", key: utf8(`/k/${at}`), value: new Uint8Array(50_000) } as const;
      return store.txn({ compare: [], success: [op] });
    };
    const fill = async (): Promise<void> => {
      for (let at = 0; at < 20; at++) await put(at);
    };
    await expect(fill()).rejects.toMatchObject({ code: "store.full" });
    const all = { key: utf8("/k/"), end: prefixEnd(utf8("/k/")) };
    await store.txn({ compare: [], success: [{ type: "delete", ...all }] });
    await store.compact(await store.revision());
    await put(0);
    expect((await store.range(all)).count).toBe(1);
  } finally {
    await store.close();
  }
  expect(statSync(join(folder, "db", "a", "state.db")).size).toBeLessThanOrEqual(maxBytes);
});

test("one that cannot be opened is told, and is in nobody's way", async () => {
  writeFileSync(join(folder, "db", "broken"), "a file where a folder should be");
  writeFileSync(join(folder, "serve", "broken"), "");
  want("fine");
  await expect.poll(() => stores.names, { timeout: 20_000 }).toEqual(["fine"]);
  expect(said.join("\n")).toContain("cannot serve broken");
});
