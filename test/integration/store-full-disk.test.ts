// A really full file system, not only a limit of our own.
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { prefixEnd, utf8 } from "@gpve/store/keys.ts";
import { verifySqlite } from "@gpve/store/backup/verify-sqlite.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { mainFile, nodeBinary } from "../support/gpve.ts";

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

describe.skipIf(!root)("`up` on a full disk", () => {
  const dirs: string[] = [];
  const small = async (size: string): Promise<string> => {
    const dir = mkdtempSync(join(tmpdir(), "gpve-full-"));
    await exec("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", dir]);
    dirs.push(dir);
    return dir;
  };
  const run = async (command: string, dir: string) => {
    const more = command === "up" ? ["--listen", "127.0.0.1:0", "--no-network", "--detach"] : [];
    const args = ["--disable-warning=ExperimentalWarning", mainFile, command, "--data", join(dir, "data")];
    const { code, stdout, stderr } = await exec(nodeBinary, [...args, ...more], {
      okCodes: [0, 1, 9],
      timeoutMs: 120_000,
    });
    return { code, said: stdout + stderr };
  };
  const fill = (dir: string): void => {
    try {
      writeFileSync(join(dir, "ballast"), new Uint8Array(16_000_000));
    } catch (err) {
      expect(err).toMatchObject({ code: "ENOSPC" });
    }
  };
  afterAll(async () => {
    for (const dir of dirs) {
      await run("down", dir);
      await exec("umount", [dir]);
      rmSync(dir, { recursive: true, force: true });
    }
  });

  it("says at the first start what to do", async () => {
    const dir = await small("64k");
    fill(dir);
    const { code, said } = await run("up", dir);
    expect(code).not.toBe(0);
    expect(said).toContain("disk is full; free some space, or choose another with --data DIR");
  });

  it("says it also where there is a little room, but not for the store", async () => {
    const { code, said } = await run("up", await small("256k"));
    expect(code).not.toBe(0);
    expect(said).toContain("data/server/store.db is full: free disk space, then try again");
  });

  it("says it at a later start, not what an earlier one said, and starts when there is room", async () => {
    const dir = await small("8m");
    expect(await run("up", dir)).toMatchObject({ code: 0 });
    await run("down", dir);
    fill(dir);
    const { code, said } = await run("up", dir);
    expect(code).not.toBe(0);
    expect(said).toMatch(/disk is full; free some space|is full: free disk space/);
    expect(said).not.toContain("is running");
    rmSync(join(dir, "ballast"));
    expect(await run("up", dir)).toMatchObject({ code: 0 });
  });
});
