import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { labOf, type Lab } from "./lab-plan.ts";
import { keepWatchdogs, lastReset, watchdogFile } from "./lab-watchdog.ts";

let folder: string;
let lab: Lab;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-dogs-"));
  lab = labOf(openDataDir(folder), 3, "10.37.9.0/24");
  for (const node of lab.nodes) mkdirSync(join(node.folder, "run"), { recursive: true });
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("resets a node whose watchdog is armed and not fed, once, and no other", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const reset: string[] = [];
  const kept = keepWatchdogs(
    lab,
    { clock, log: silentLogger, reset: ({ name }) => void reset.push(name) },
    stop.signal,
  );
  const [first, second] = lab.nodes.map((node) => watchdogFile(node.folder));
  writeFileSync(first ?? "", "armed 1 7\n");
  writeFileSync(second ?? "", "armed 1 8\n");
  await clock.advance(leaseTimes.watchdogMs - 1_000);
  writeFileSync(second ?? "", "armed 2 8\n");
  await clock.advance(2_000);
  expect(reset).toEqual(["n1"]);
  expect(readFileSync(first ?? "", "utf8")).toBe("off\n");
  expect(lab.nodes.map((node) => lastReset(node) !== undefined)).toEqual([true, false, false]);
  writeFileSync(second ?? "", "off\n");
  await clock.advance(leaseTimes.watchdogMs * 3);
  expect(reset).toEqual(["n1"]);
  stop.abort(new Error("over"));
  await clock.advance(1_000);
  await kept;
});
