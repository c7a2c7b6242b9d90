import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { systemClock } from "@gpve/kit/clock.ts";
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

test("one that cannot be opened is told, and is in nobody's way", async () => {
  writeFileSync(join(folder, "db", "broken"), "a file where a folder should be");
  writeFileSync(join(folder, "serve", "broken"), "");
  want("fine");
  await expect.poll(() => stores.names, { timeout: 20_000 }).toEqual(["fine"]);
  expect(said.join("\n")).toContain("cannot serve broken");
});
