import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { silentLogger } from "@gpve/kit/logger.ts";
import { identifySelf } from "@gpve/kit/process-identity.ts";
import { bootMs, FenceFiles } from "./fence-files.ts";
import { chooseWatchdog, fileWatchdog, noWatchdog } from "./watchdogs.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-fence-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("what agent and fence process said stands, whoever was restarted", () => {
  const files = new FenceFiles(folder);
  expect([files.readWish(), files.readReport()]).toEqual([false, undefined]);
  files.wish(false);
  expect(readdirSync(files.folder)).toEqual([]);
  files.wish(true);
  const self = identifySelf();
  const report = { held: true, token: 3, deadline: 5, renewed: 1, process: self, version: "1" };
  files.writeReport(report);
  const again = new FenceFiles(folder);
  expect([again.readWish(), again.readReport()]).toEqual([true, report]);
});

test("the deadline stays one file of eight bytes", () => {
  const files = new FenceFiles(folder);
  files.writeDeadline(1);
  const { ino } = statOf(files.deadlineFile);
  files.writeDeadline(123_456_789_012.7);
  expect(statOf(files.deadlineFile)).toEqual({ ino, size: 8 });
  expect(readFileSync(files.deadlineFile).readBigInt64LE()).toBe(123_456_789_012n);
  const now = bootMs();
  expect(now).toBeGreaterThan(0);
  expect(bootMs()).toBeGreaterThanOrEqual(now);
});

test("a watchdog that is a file is armed from the first feeding on, and let go in words", () => {
  const file = join(folder, "watchdog");
  const dog = fileWatchdog(file);
  dog.feed();
  const first = readFileSync(file, "utf8");
  expect(first).toMatch(/^armed 1 /);
  dog.feed();
  expect(readFileSync(file, "utf8")).not.toBe(first);
  dog.disarm();
  expect(readFileSync(file, "utf8")).toBe("off\n");
  noWatchdog.feed();
  noWatchdog.disarm();
});

test("the watchdog is the one that is named, else the machine's, else none, which is said", () => {
  const warnings: string[] = [];
  const log = { ...silentLogger, warn: (_fields: object, text: string) => void warnings.push(text) };
  const choose = (watchdog: string | undefined, supervisor?: string, exists = false) =>
    chooseWatchdog({ watchdog, supervisor, log, exists: () => exists });
  const file = join(folder, "dog");
  choose(`file:${file}`).feed();
  expect(readFileSync(file, "utf8")).toMatch(/^armed 1 /);
  expect(warnings).toEqual([]);
  expect(choose("/dev/watchdog1", "/bin/supervisor")).not.toBe(noWatchdog);
  expect(choose(undefined, "/bin/supervisor", true)).not.toBe(noWatchdog);
  expect(warnings).toEqual([]);
  // Nobody to set its time, none there, none wanted.
  expect(choose("/dev/watchdog1")).toBe(noWatchdog);
  expect(choose(undefined, "/bin/supervisor")).toBe(noWatchdog);
  expect(choose("none", "/bin/supervisor", true)).toBe(noWatchdog);
  expect(warnings).toHaveLength(3);
  expect(warnings[0]).toContain("set ha.watchdog");
});

function statOf(path: string): { ino: number; size: number } {
  const { ino, size } = statSync(path);
  return { ino, size };
}
