// Quotas where several servers share a store: creates and clones by three tenants through both faces at once. Never over
// at any moment, exact at the end, also when a member of the store is killed in the middle of it.
import { type EtcdCluster, etcdMissing, startEtcd } from "@gpve/store/testing/etcd-cluster.ts";
import type { Store } from "@gpve/store/port.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";
import { soakQuotas, type SoakResult } from "@gpve/server/testing/quota-soak.ts";
import { setTimeout as sleep } from "node:timers/promises";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

if (etcdMissing !== undefined) console.error(`SKIPPED quotas on etcd: ${etcdMissing}`);

const REQUESTS = Number(process.env["GPVE_QUOTA_REQUESTS"] ?? 90);

function check({ made, refused, peaks, hard, exact, left }: SoakResult): void {
  for (const [tenant, most] of Object.entries(peaks))
    expect(most, tenant).toBeLessThanOrEqual(hard[tenant] ?? 0);
  expect(made).toBeGreaterThan(REQUESTS / 6);
  expect(refused).toBeGreaterThan(REQUESTS / 6);
  for (const [records, ledger] of Object.values(exact)) expect(ledger).toBe(records);
  expect(left).toBe(0);
}

test("on SQLite", async () => {
  const dir = mkdtempSync(join(tmpdir(), "gpve-quota-"));
  const store = openSqliteStore({ path: join(dir, "store.db") });
  try {
    check(await soakQuotas({ stores: [store, store, store], requests: REQUESTS, random: Math.random }));
  } finally {
    await store.close();
    rmSync(dir, { recursive: true });
  }
});

describe.skipIf(etcdMissing !== undefined)("on three etcds", () => {
  let cluster: EtcdCluster;
  const stores: Store[] = [];
  beforeAll(async () => {
    cluster = await startEtcd({ members: 3 });
    for (let count = 0; count < 3; count++) stores.push(cluster.open());
  });
  afterAll(async () => {
    for (const store of stores) await store.close();
    await cluster.stop();
  });

  test("of which one is killed", async () => {
    const result = await soakQuotas({
      stores,
      requests: REQUESTS,
      random: Math.random,
      disturb: async () => {
        await sleep(REQUESTS);
        await cluster.members[0]?.kill();
      },
    });
    check(result);
  });
});
