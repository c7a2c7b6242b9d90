// A writer killed a hundred times in mid-write: nothing it was told was stored is lost, nothing is half-written.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, it } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { verifySqlite } from "@gpve/store/backup/verify-sqlite.ts";
import { fromUtf8, prefixEnd, utf8 } from "@gpve/store/keys.ts";
import { openSqliteStore } from "@gpve/store/sqlite/sqlite-store.ts";

const KILLS = 100;
const dir = mkdtempSync(join(tmpdir(), "gpve-crash-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));

it("keeps every acknowledged write through a hundred kills", async () => {
  const path = join(dir, "store.db");
  let acknowledgedTotal = 0;
  let lastRevision = 0;
  for (let run = 0; run < KILLS; run++) {
    const writer = startChild(process.execPath, [
      join(import.meta.dirname, "fixtures/crash-writer.ts"),
      path,
      String(run),
    ]);
    const acknowledged: { sequence: number; revision: number }[] = [];
    const started = Promise.withResolvers<void>();
    writer.onLine((line) => {
      const [name = "", revision = ""] = line.split(" ");
      acknowledged.push({ sequence: Number(name.split("-")[1]), revision: Number(revision) });
      started.resolve();
    });
    await Promise.race([
      started.promise,
      writer.exited.then(() => {
        throw new Error(`the writer ended by itself: ${writer.output()}`);
      }),
    ]);
    await sleep(Math.random() * 60);
    await writer.stop();

    const report = verifySqlite(path);
    expect(report.problems).toEqual([]);
    const store = openSqliteStore({ path });
    const highest = Math.max(...acknowledged.map(({ revision }) => revision));
    const revision = await store.revision();
    expect(Math.min(...acknowledged.map((entry) => entry.revision))).toBeGreaterThan(lastRevision);
    expect(revision).toBeGreaterThanOrEqual(highest);
    lastRevision = revision;
    const log = utf8("/log/");
    const { kvs } = await store.range({ key: log, end: prefixEnd(log) });
    const stored = new Set(kvs.map((kv) => fromUtf8(kv.value)));
    const newest = Math.max(
      ...[...stored].filter((name) => name.startsWith(`${run}-`)).map((name) => Number(name.split("-")[1])),
    );
    const lost = acknowledged.filter(
      // Each write removes the one 200 before it; the last ones are still there.
      ({ sequence }) => sequence > newest - 190 && !stored.has(`${run}-${sequence}`),
    );
    expect(lost).toEqual([]);
    const [left, right] = await Promise.all(
      ["/pair/left", "/pair/right"].map(async (key) => (await store.range({ key: utf8(key) })).kvs[0]),
    );
    expect(left?.modRevision).toBe(right?.modRevision);
    expect(left?.value).toEqual(right?.value);
    acknowledgedTotal += acknowledged.length;
    await store.close();
  }
  console.log(`crash: ${acknowledgedTotal} acknowledged writes over ${KILLS} kills, none lost`);
  expect(acknowledgedTotal).toBeGreaterThan(KILLS * 3);
});

const STRACE = "/usr/bin/strace";
const traceable = existsSync(STRACE);
if (!traceable)
  console.error("SKIPPED store-crash, sync before answer: install it with: apt-get install strace");

// A kill leaves the page cache alive; a power cut does not. So: is the disk told to sync before each answer?
it.skipIf(!traceable)("syncs the disk before it acknowledges a write", async () => {
  const count = 25;
  const trace = join(dir, "trace");
  const strace = ["-f", "-e", "trace=fsync,fdatasync,write", "-s", "20", "-o", trace];
  const writer = join(import.meta.dirname, "fixtures/sync-writer.ts");
  await exec(STRACE, [...strace, process.execPath, writer, join(dir, "sync.db"), String(count)]);
  let synced = false;
  let acknowledged = 0;
  for (const line of readFileSync(trace, "utf8").split("\n")) {
    if (/f(data)?sync\b.*= 0/.test(line)) synced = true;
    if (!line.includes("acknowledged")) continue;
    expect(synced, line).toBe(true);
    synced = false;
    acknowledged++;
  }
  expect(acknowledged).toBe(count);
});
