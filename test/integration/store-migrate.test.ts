// A store moves from SQLite to a real etcd and back, with nothing changed.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { backupStore, migrateStore, restoreBackup } from "@gpve/store/backup/backup.ts";
import { contentsOf } from "@gpve/store/backup/digest.ts";
import { utf8 } from "@gpve/store/keys.ts";
import { openStore } from "@gpve/store/open-store.ts";
import { etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";

if (etcdMissing !== undefined) console.error(`SKIPPED store-migrate: ${etcdMissing}`);

describe.skipIf(etcdMissing !== undefined)("migration", () => {
  it("goes from SQLite to etcd over TLS and back, by copy and by backup", async () => {
    const dir = mkdtempSync(join(tmpdir(), "gpve-migrate-"));
    const cluster = await startEtcd({ members: 1, tls: true });
    try {
      const source = await openStore({ type: "sqlite", path: join(dir, "a.db") });
      for (let i = 0; i < 30; i++) {
        await source.txn({
          compare: [],
          success: Array.from({ length: 100 }, (_, n) => ({
            type: "put" as const,
            key: utf8(`/gpve/guests/${i * 100 + n}`),
            value: utf8(JSON.stringify({ vmid: i * 100 + n, text: "x".repeat(n * 20) })),
          })),
        });
      }
      const { caFile = "", certFile = "", keyFile = "" } = cluster.tls ?? {};
      const etcd = await openStore({ type: "etcd", endpoints: cluster.endpoints, caFile, certFile, keyFile });
      const moved = await migrateStore(source, etcd);
      expect(moved).toEqual(await contentsOf(source));
      expect(moved.count).toBe(3_000);
      await expect(migrateStore(source, etcd)).rejects.toMatchObject({ code: "object.exists" });
      const back = await openStore({ type: "sqlite", path: join(dir, "b.db") });
      expect(await migrateStore(etcd, back)).toEqual(moved);
      const restored = await openStore({ type: "sqlite", path: join(dir, "c.db") });
      await backupStore(etcd, join(dir, "backup"));
      expect((await restoreBackup(join(dir, "backup"), restored)).sha256).toBe(moved.sha256);
      for (const store of [source, etcd, back, restored]) await store.close();
    } finally {
      await cluster.stop();
      rmSync(dir, { recursive: true, force: true });
    }
  });
});
