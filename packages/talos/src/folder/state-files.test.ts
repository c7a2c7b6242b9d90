// What lies in .deployer: journal, copies, snapshots.
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { expectedTimes } from "../engine/step-times.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { newAgeIdentity } from "../secrets/age-text.ts";
import { FileJournal, journalPath } from "./journal.ts";
import { keepCopies, readLock, writeLock } from "./lock-file.ts";
import { keepSnapshot } from "./snapshot-store.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-talos-state-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a journal's last line may be cut short; what steps took before is what is expected", () => {
  const path = journalPath(folder, "prod");
  const journal = new FileJournal(path);
  const line = { at: "", run: "1", event: "done", step: "guest.create a" } as const;
  for (const ms of [9000, 1000, 3000]) journal.append({ ...line, ms });
  appendFileSync(path, '{"at":"","run":"1","ev');
  expect(journal.lines()).toHaveLength(3);
  expect(expectedTimes(journal.lines())("guest.create")).toBe(3000);
  expect(expectedTimes([])("guest.create")).toBe(15_000);
});

test("a lock is read as it was written; copies are kept, the oldest go", () => {
  const lock = { ...readLock(folder, "prod"), replacing: ["prod-cp-1"] };
  writeLock(folder, lock);
  expect(readLock(folder, "prod")).toEqual(lock);
  const file = join(folder, "cluster.yaml");
  writeFileSync(file, "a: 1\n");
  for (let at = 0; at < 25; at++) keepCopies(folder, "prod", [file, join(folder, "none")], at * 1000);
  const kept = readdirSync(join(folder, ".deployer/prod/before")).toSorted();
  expect(kept).toHaveLength(20);
  expect(readdirSync(join(folder, ".deployer/prod/before", kept[0] ?? ""))).toEqual(["cluster.yaml"]);
});

test("a snapshot is verified, encrypted, and the newest are kept", async () => {
  const { recipient } = await newAgeIdentity();
  const cluster = testCluster({
    secrets: { recipients: [recipient] },
    backup: { etcd: { keep: 2 } },
  });
  const content = Buffer.from("etcd");
  const whole = Buffer.concat([content, createHash("sha256").update(content).digest()]);
  for (const now of [1000, 2000, 3000]) await keepSnapshot({ folder, cluster }, whole, now);
  const files = readdirSync(join(folder, ".deployer/prod/snapshots")).toSorted();
  expect(files).toHaveLength(2);
  expect(readFileSync(join(folder, ".deployer/prod/snapshots", files[0] ?? ""), "utf8")).toContain(
    "BEGIN AGE",
  );
  await expect(keepSnapshot({ folder, cluster }, whole.subarray(1), 4000)).rejects.toMatchObject({
    data: { finding: "snapshot-damaged" },
  });
  const plain = testCluster({ backup: { etcd: { encrypt: "none" } } });
  expect((await keepSnapshot({ folder, cluster: plain }, whole, 5000)).file).toMatch(/\.snapshot$/);
});
