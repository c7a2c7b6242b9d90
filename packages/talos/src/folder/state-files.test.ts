// What lies in .deployer: journal, copies, snapshots.
import {
  appendFileSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { expectedTimes } from "../engine/progress/step-times.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { newAgeIdentity } from "../secrets/age-text.ts";
import { FileJournal, journalPath } from "./journal.ts";
import { readLock, writeLock } from "./lock-file.ts";
import { copyFiles, keepCopies, putBack, readCopy } from "./own-files.ts";
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
  expect(readdirSync(join(folder, ".deployer/prod/before", kept[0] ?? ""))).toEqual([
    "SHA256SUMS",
    "cluster.yaml",
  ]);
});

test("a copy is put back as it was, what was there is kept, and one that is not whole is refused", () => {
  const at = (...path: readonly string[]): string => join(folder, ...path);
  const write = (name: string, text: string): void => writeFileSync(at(name), text, { mode: 0o600 });
  writeLock(folder, readLock(folder, "prod"));
  write("cluster.yaml", "a: 1\n");
  const files = ["cluster.yaml", ".deployer/prod/lock.json"];
  const outside = join(folder, "..", "not-ours");
  expect(copyFiles(folder, [...files.map((name) => at(name)), outside], at("copy"))).toEqual(files);
  write("cluster.yaml", "a: 2\n");
  const kept = putBack(at("copy"), folder, 1000) ?? "";
  expect(readFileSync(at("cluster.yaml"), "utf8")).toBe("a: 1\n");
  expect(statSync(at("cluster.yaml")).mode & 0o777).toBe(0o600);
  expect(readFileSync(join(kept, "cluster.yaml"), "utf8")).toBe("a: 2\n");
  // Into an empty folder there is nothing to keep.
  expect(putBack(at("copy"), at("new"), 1000)).toBeUndefined();
  expect(readLock(at("new"), "prod")).toMatchObject({ cluster: "prod" });
  writeFileSync(at("copy", "cluster.yaml"), "a: 3\n");
  expect(() => putBack(at("copy"), folder, 2000)).toThrow("cluster.yaml is not what was copied");
  writeFileSync(at("copy", "SHA256SUMS"), `${"0".repeat(64)}  ../../etc/passwd\n`);
  expect(() => readCopy(at("copy"))).toThrow("names no file");
  expect(() => readCopy(at("new"))).toThrow("has no SHA256SUMS");
  expect(readFileSync(at("cluster.yaml"), "utf8")).toBe("a: 1\n");
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
