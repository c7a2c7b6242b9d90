// A really full file system, not only a limit of our own.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { prefixEnd, utf8 } from "@gpve/store/keys.ts";
import { verifySqlite } from "@gpve/store/backup/verify-sqlite.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";

const root = process.getuid?.() === 0;
if (!root) console.error("SKIPPED store-full-disk: mounting a small tmpfs needs root; run as root");

describe.skipIf(!root)("a full disk", () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-full-"));
  let mounted = false;
  beforeAll(async () => {
    await exec("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", dir]);
    mounted = true;
  });
  afterAll(async () => {
    if (mounted) await exec("umount", [dir]);
    rmSync(dir, { recursive: true, force: true });
  });

  it("refuses with store.full, keeps what it has, and goes on when there is room again", async () => {
    const path = join(dir, "store.db");
    const store = openSqliteStore({ path });
    const put = (key: string, size: number) =>
      store.txn({
        compare: [],
        success: [
          { type: "put", key: utf8(`/a/${key}`), value: new Uint8Array(size) },
          { type: "put", key: utf8(`/b/${key}`), value: new Uint8Array(0) },
        ],
      });
    await put("first", 10);
    writeFileSync(join(dir, "ballast"), new Uint8Array(2_500_000));
    let stored = 1;
    let refused = 0;
    for (let i = 0; i < 60 && refused < 3; i++) {
      try {
        await put(String(i), 50_000);
        stored++;
      } catch (err) {
        expect(err).toMatchObject({ code: "store.full" });
        refused++;
      }
    }
    expect(refused).toBe(3);
    const count = async (prefix: string) =>
      (await store.range({ key: utf8(prefix), end: prefixEnd(utf8(prefix)), countOnly: true })).count;
    expect([await count("/a/"), await count("/b/")]).toEqual([stored, stored]);
    rmSync(join(dir, "ballast"));
    await put("last", 50_000);
    expect([await count("/a/"), await count("/b/")]).toEqual([stored + 1, stored + 1]);
    await store.close();
    expect(verifySqlite(path)).toMatchObject({ problems: [], keys: 2 * (stored + 1) });
    expect(readdirSync(dir)).toContain("store.db");
  });
});
