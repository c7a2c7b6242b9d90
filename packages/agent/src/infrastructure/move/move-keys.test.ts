import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isKey } from "@gpve/domain/vm/migrate/direct-line.ts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FakeGuests } from "../../testing/fake-guests.ts";
import { FolderMoveKeys } from "./move-keys.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-keys-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const vm = { id: "100", label: "VM 100", program: "", args: [], files: [] };

test("a key is new each time", () => {
  const keys = new FolderMoveKeys(folder);
  const made = Array.from({ length: 9 }, () => keys.newKey());
  expect(made.every((each) => isKey(each))).toBe(true);
  expect(new Set(made).size).toBe(9);
});

test("the guest sees a folder with its key, which nobody else can read, until it is taken away", async () => {
  const keys = new FolderMoveKeys(folder);
  const process = await new FakeGuests().startQemu(vm);
  const first = await keys.place(process, "aa");
  const placed = await keys.place(process, "bb");
  expect(placed).toEqual(first);
  expect(process.files).toEqual([placed.folder]);
  const file = join(placed.folder, "keys.psk");
  expect(readFileSync(file, "utf8")).toBe(`${placed.user}:bb\n`);
  expect([statSync(file).mode & 0o777, statSync(placed.folder).mode & 0o777]).toEqual([0o600, 0o700]);
  await keys.remove("100", process);
  expect([process.files, existsSync(placed.folder)]).toEqual([[], false]);
  await keys.remove("100");
});

test("what is left of one that has ended goes too", async () => {
  const keys = new FolderMoveKeys(folder);
  const process = await new FakeGuests().startQemu(vm);
  const placed = await keys.place(process, "aa");
  await process.kill();
  await keys.remove("100", process);
  expect(existsSync(placed.folder)).toBe(false);
});
