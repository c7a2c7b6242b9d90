import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { identify, isAlive, type ProcessIdentity } from "@gpve/kit/process-identity.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { expect, onTestFinished, test } from "vitest";
import { endProcess, livingProcess, sendSignal } from "./long-lived-process.ts";

/** Once it says that it is ready for signals. */
async function started(script: string): Promise<ProcessIdentity> {
  const child = startChild("/bin/sh", ["-c", `${script}; echo ready; while :; do sleep 0.1; done`]);
  onTestFinished(() => child.stop());
  await new Promise<void>((resolve) => child.onLine(() => resolve()));
  const found = identify(child.pid);
  if (found === undefined) throw new Error("the process of this test is gone");
  return found;
}

test("a process is asked to end", async () => {
  const running = await started(":");
  await endProcess(running, 60_000);
  expect(isAlive(running)).toBe(false);
});

test("one that is frozen is thawed to hear it", async () => {
  const running = await started(":");
  sendSignal(running.pid, "SIGSTOP");
  await endProcess(running, 60_000);
  expect(isAlive(running)).toBe(false);
});

test("one that does not listen is killed", async () => {
  const running = await started("trap '' TERM");
  await endProcess(running, 0);
  expect(isAlive(running)).toBe(false);
});

test("who holds a lock counts while it lives", async () => {
  const running = await started(":");
  const folder = mkdtempSync(join(tmpdir(), "lock-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const file = join(folder, "a.lock");
  expect(livingProcess(file)).toBeUndefined();
  writeFileSync(file, JSON.stringify(running));
  expect(livingProcess(file)).toEqual(running);
  await endProcess(running, 0);
  expect(livingProcess(file)).toBeUndefined();
  expect(() => sendSignal(running.pid, "SIGTERM")).not.toThrow();
});
