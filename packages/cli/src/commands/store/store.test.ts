import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { acquireProcessLock } from "@gpve/kit/process-lock.ts";
import { openStore } from "@gpve/store/open-store.ts";
import { Gpvectl } from "../../testing/run-gpvectl.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function withStoreDir(
  keys: Readonly<Record<string, string>> = { "/a": "1", "/b": "2" },
): Promise<Gpvectl> {
  const ctl = await Gpvectl.create();
  await mkdir(join(ctl.home, "data/run"), { recursive: true });
  await mkdir(join(ctl.home, "data/server"), { recursive: true });
  await fill(ctl, keys);
  return ctl;
}

async function fill(ctl: Gpvectl, keys: Readonly<Record<string, string>>): Promise<void> {
  const store = await openStore({ type: "sqlite", path: join(ctl.home, "data/server/store.db") });
  for (const [key, value] of Object.entries(keys)) {
    await store.txn({ compare: [], success: [{ type: "put", key: bytes(key), value: bytes(value) }] });
  }
  await store.close();
}

async function keysOf(ctl: Gpvectl): Promise<readonly string[]> {
  const store = await openStore({ type: "sqlite", path: join(ctl.home, "data/server/store.db") });
  const { kvs } = await store.range({ key: Uint8Array.of(0), end: Uint8Array.of(0) });
  await store.close();
  return kvs.map((kv) => new TextDecoder().decode(kv.key));
}

const data = ["--data", "data"];

describe("store", () => {
  test("backup writes a file that verify accepts and restore makes the same store of", async () => {
    await using ctl = await withStoreDir();
    const file = join(ctl.home, "x.backup");
    expect(await ctl.run(["store", "backup", "x.backup", ...data])).toMatchObject({
      code: 0,
      out: `Backed up 2 keys to ${file}.\n`,
    });
    expect((await ctl.run(["store", "verify", "x.backup"])).out).toBe(
      "x.backup is whole: 2 keys of 2026-01-02T03:04:05.000Z.\n",
    );
    expect(JSON.parse((await ctl.run(["store", "verify", "x.backup", "-o", "json"])).out)).toHaveProperty(
      "count",
      2,
    );
    expect((await ctl.run(["store", "backup", "x.backup", ...data])).code).toBe(6);
    await fill(ctl, { "/c": "3" });
    expect(await ctl.run(["store", "restore", "x.backup", ...data])).toMatchObject({
      code: 6,
      err: expect.stringContaining("With --replace the old one is put aside."),
    });
    expect(await keysOf(ctl)).toEqual(["/a", "/b", "/c"]);
    const restored = await ctl.run(["store", "restore", "x.backup", "--replace", ...data]);
    expect(restored.out).toBe(
      `Restored 2 keys of 2026-01-02T03:04:05.000Z into ${join(ctl.home, "data")}.\n`,
    );
    expect(restored.err).toContain("store.db.before-20260102T030405");
    expect(await keysOf(ctl)).toEqual(["/a", "/b"]);
    expect(
      JSON.parse((await ctl.run(["store", "backup", "y.backup", "-o", "json", ...data])).out),
    ).toMatchObject({
      file: join(ctl.home, "y.backup"),
      count: 2,
    });
  });

  test("a damaged backup is refused and the store before comes back", async () => {
    await using ctl = await withStoreDir();
    await ctl.run(["store", "backup", "x.backup", ...data]);
    const path = join(ctl.home, "x.backup");
    await writeFile(path, (await readFile(path, "utf8")).replace(/"value":"..../, '"value":"AAAA'));
    expect((await ctl.run(["store", "verify", "x.backup"])).code).not.toBe(0);
    expect((await ctl.run(["store", "restore", "x.backup", "--replace", ...data])).code).not.toBe(0);
    expect(await keysOf(ctl)).toEqual(["/a", "/b"]);
    expect((await readdir(join(ctl.home, "data/server"))).filter((name) => name.includes("before"))).toEqual(
      [],
    );
  });

  test("verify looks at the store of a stopped gpve", async () => {
    await using ctl = await withStoreDir();
    const dir = join(ctl.home, "data");
    expect((await ctl.run(["store", "verify"], { localDataDir: dir })).out).toBe(
      `${dir}/server/store.db is sound: 2 keys at revision 3.\n`,
    );
    await writeFile(join(dir, "server/store.db"), "not a database");
    const broken = await ctl.run(["store", "verify", "-o", "json", ...data]);
    expect(broken.code).not.toBe(0);
  });

  test("a running gpve, a wrong directory and no directory are told apart", async () => {
    await using ctl = await withStoreDir();
    const lock = acquireProcessLock(join(ctl.home, "data/run/lock"));
    for (const argv of [
      ["backup", "x"],
      ["restore", "x"],
      ["verify"],
      ["migrate", "to-etcd", "--etcd", "http://127.0.0.1:1"],
    ]) {
      expect(await ctl.run(["store", ...argv, ...data])).toMatchObject({
        code: 8,
        err: expect.stringContaining("./gpve down --data"),
      });
    }
    lock.release();
    expect((await ctl.run(["store", "backup", "x", "--data", "nowhere"])).code).toBe(5);
    expect((await ctl.run(["store", "backup", "x"])).err).toContain("no data directory is named");
    await mkdir(join(ctl.home, "empty/run"), { recursive: true });
    expect((await ctl.run(["store", "backup", "x", "--data", "empty"])).err).toContain("has no store");
    expect((await ctl.run(["store", "verify", "--data", "empty"])).err).toContain("has no store");
    expect(existsSync(join(ctl.home, "x"))).toBe(false);
  });

  test("migrate wants an etcd; etcd options are read", async () => {
    await using ctl = await withStoreDir();
    expect((await ctl.run(["store", "migrate", "to-etcd", ...data])).err).toContain("no etcd is named");
    const etcd = [
      "--etcd",
      "https://127.0.0.1:1",
      "--etcd-ca",
      "ca.pem",
      "--etcd-cert",
      "c.pem",
      "--etcd-key",
      "k.pem",
    ];
    expect((await ctl.run(["store", "migrate", "to-sqlite", ...etcd, ...data])).err).toContain("ca.pem");
    expect((await ctl.run(["store", "restore", "x.backup", ...etcd])).err).toContain("ca.pem");
    expect((await ctl.run(["store", "backup", "x.backup", "--etcd", "nonsense"])).err).toContain(
      "https://host:port",
    );
  });
});
