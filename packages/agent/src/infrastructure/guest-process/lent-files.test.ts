import { chmodSync, chownSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { GuestFolder } from "./guest-folder.ts";
import { FIRST_GUEST_UID } from "./guest-uid.ts";
import { giveBack, lendFile } from "./lent-files.ts";

const UID = FIRST_GUEST_UID + 5;
const isRoot = process.getuid?.() === 0;

describe.skipIf(!isRoot)("files of the host (skipped without root)", () => {
  let root: string;
  let folder: GuestFolder;
  let path: string;
  const owner = () => {
    const { uid, gid, mode } = statSync(path);
    return [uid, gid, mode & 0o777];
  };

  beforeEach(() => {
    root = mkdtempSync(join(tmpdir(), "gpve-lent-"));
    folder = new GuestFolder(root, "100");
    folder.create();
    path = join(root, "disk");
    writeFileSync(path, "x");
    chownSync(path, 0, 6);
    chmodSync(path, 0o440);
  });
  afterEach(() => rmSync(root, { recursive: true, force: true }));

  test("are as before when the guest has gone", async () => {
    const file = { path, access: "rw", owned: true, ofHost: true } as const;
    await lendFile(folder, file, UID);
    await lendFile(folder, file, UID);
    expect(owner()).toEqual([UID, 6, 0o640]);
    await giveBack(folder, UID, "/other");
    expect(owner()[0]).toBe(UID);
    await giveBack(folder, UID);
    expect(owner()).toEqual([0, 6, 0o440]);
    expect(folder.readLent()).toEqual([]);
  });

  test("come back from a guest that never got further, also when nobody knows its uid any more", async () => {
    const link = join(root, "by-id");
    symlinkSync(path, link);
    const takeBack = await lendFile(folder, { path: link, access: "rw", ofHost: true }, UID);
    expect(owner()[0]).toBe(UID);
    await takeBack();
    expect(owner()).toEqual([0, 6, 0o440]);
    await lendFile(folder, { path, access: "rw", ofHost: true }, UID);
    // What was lent before is not taken from it by a second attempt that fails.
    await (
      await lendFile(folder, { path, access: "rw", ofHost: true }, UID)
    )();
    expect(owner()[0]).toBe(UID);
    await giveBack(new GuestFolder(root, "100"), undefined);
    expect(owner()).toEqual([0, 6, 0o440]);
  });

  test("stay with the guest that got them last, and come back from it", async () => {
    const file = { path, access: "rw", ofHost: true } as const;
    const other = new GuestFolder(root, "101");
    other.create();
    await lendFile(folder, file, UID);
    await lendFile(other, file, UID + 1);
    await giveBack(folder, UID, path);
    expect(owner()[0]).toBe(UID + 1);
    await giveBack(other, UID + 1);
    expect(owner()[0]).toBe(0);
  });

  test("may be gone, and a storage's files stay with their guest", async () => {
    await lendFile(folder, { path, access: "rw", ofHost: true }, UID);
    rmSync(path);
    await giveBack(folder, UID);
    writeFileSync(path, "x");
    await lendFile(folder, { path, access: "rw" }, UID);
    await giveBack(folder, UID);
    expect(owner()[0]).toBe(UID);
    await expect(
      lendFile(folder, { path: join(root, "none"), access: "rw", ofHost: true }, UID),
    ).rejects.toThrow("none");
  });
});
