import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { StorageStatisticsFiles } from "./storage-statistics.ts";

it("keeps size and use of every storage that is there", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-rrd-"));
  try {
    const statistics = new StorageStatisticsFiles(folder);
    const now = Date.UTC(2026, 0, 1, 12);
    const local = { storage: "local", active: true, totalBytes: 100, usedBytes: 40, availBytes: 60 };
    for (let second = 0; second <= 120; second += 10) {
      statistics.sample(now + second * 1000, [local, { ...local, storage: "gone", active: false }]);
    }
    const rows = statistics.rows("local", "hour", "AVERAGE", now + 120_000);
    expect(rows.find((row) => row["used"] !== undefined)).toMatchObject({ total: 100, used: 40 });
    expect(readdirSync(folder)).toEqual(["storage-local.rrd"]);
    statistics.close();
  } finally {
    rmSync(folder, { recursive: true });
  }
});
