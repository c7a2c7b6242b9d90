// A writer that is killed with -9 in mid-write: every entry it was told is stored must be there afterwards.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { systemClock } from "@gpve/kit/clock.ts";
import { exec } from "@gpve/kit/exec.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { openFileAuditLog } from "@gpve/server/infrastructure/audit/file-audit-log.ts";
import { listAudit } from "@gpve/server/infrastructure/audit/list-audit.ts";
import { verifyAudit } from "@gpve/server/infrastructure/audit/verify-audit.ts";
import { expect, test } from "vitest";

const ROUNDS = 12;
const key = Buffer.alloc(32, 9);

test("a killed writer loses no entry it was told is stored", async () => {
  const root = mkdtempSync(join(tmpdir(), "gpve-audit-crash-"));
  const dir = join(root, "audit");
  const script = join(root, "writer.ts");
  const source = resolve("packages/server/src/infrastructure/audit/file-audit-log.ts");
  writeFileSync(
    script,
    `import { writeSync } from "node:fs";
     const { openFileAuditLog } = await import("${source}");
     const clock = { now: Date.now, monotonic: () => performance.now(), sleep: async () => {}, after: () => () => {} };
     const log = await openFileAuditLog({ dir: process.argv[2], key: Buffer.alloc(32, 9), clock,
       log: { error() {} }, maxFileBytes: 20_000, maxFiles: 10_000 });
     setTimeout(() => process.kill(process.pid, "SIGKILL"), Number(process.argv[3]));
     let number = 0;
     const write = async () => {
       for (;;) {
         const requestId = process.argv[4] + "-" + number++;
         await log.append({ timestamp: new Date().toISOString(), requestId, user: "u", userGroups: [], verb: "create",
           resource: "/pools", name: "", namespace: "", sourceIP: "", userAgent: "", statusCode: 200, message: "" });
         writeSync(1, requestId + "\\n");
       }
     };
     await Promise.all([write(), write(), write(), write()]);`,
  );
  const acknowledged: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    await expect(
      exec(process.execPath, [script, dir, String(40 + round * 13), String(round)], {
        onLine: (line, stream) => {
          if (stream === "stdout") acknowledged.push(line);
        },
      }),
    ).rejects.toThrow("SIGKILL");
  }
  const log = await openFileAuditLog({ dir, key, clock: systemClock, log: silentLogger, maxFiles: 10_000 });
  await log.close();
  const kept = new Set<string>();
  for await (const record of listAudit(dir)) kept.add(record.requestId);
  expect(acknowledged.length).toBeGreaterThan(ROUNDS);
  expect(acknowledged.filter((id) => !kept.has(id))).toEqual([]);
  expect((await verifyAudit(dir, key)).issues).toEqual([]);
  rmSync(root, { recursive: true });
});
