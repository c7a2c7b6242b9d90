import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import { openDataDir } from "@gpve/kit/data-dir.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { labOf, type Lab } from "./lab-plan.ts";
import { forgetPowerLoss, keepWatchdogs, notePowerLoss, powerLoss, watchdogFile } from "./lab-watchdog.ts";

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
  expect(lab.nodes.map((node) => powerLoss(node)?.by)).toEqual(["watchdog", undefined, undefined]);
  writeFileSync(second ?? "", "off\n");
  await clock.advance(leaseTimes.watchdogMs * 3);
  expect(reset).toEqual(["n1"]);
  stop.abort(new Error("over"));
  await clock.advance(1_000);
  await kept;
});

test("does not bite a node that was killed: it stays killed until it has power again", async () => {
  const clock = new FakeClock();
  const stop = new AbortController();
  const reset: string[] = [];
  const deps = { clock, log: silentLogger, reset: ({ name }: { name: string }) => void reset.push(name) };
  const kept = keepWatchdogs(lab, deps, stop.signal);
  const [node] = lab.nodes;
  if (node === undefined) throw new Error("a lab without nodes");
  writeFileSync(watchdogFile(node.folder), "armed 1 7\n");
  await clock.advance(1_000);
  notePowerLoss(node, { at: 5, by: "killed" });
  await clock.advance(leaseTimes.watchdogMs * 3);
  expect(reset).toEqual([]);
  expect(powerLoss(node)).toEqual({ at: 5, by: "killed" });
  forgetPowerLoss(node);
  expect(powerLoss(node)).toBeUndefined();
  stop.abort(new Error("over"));
  await clock.advance(1_000);
  await kept;
});
