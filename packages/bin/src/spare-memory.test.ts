import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { exec } from "@gpve/kit/exec.ts";
import { OWN_PROGRAM_ENV } from "@gpve/kit/own-program-env.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { spareMemory } from "./spare-memory.ts";

test("memory is spared while there is little to do, and not while there is much", async () => {
  const clock = new FakeClock();
  const flags: string[] = [];
  let used = 0;
  const stop = spareMemory({ clock, cpuMs: () => used, setFlag: (flag) => flags.push(flag) });
  const seconds = async (count: number, share: number): Promise<void> => {
    for (let at = 0; at < count; at++) {
      used += 1_000 * share;
      await clock.advance(1_000);
    }
  };
  await seconds(10, 0.9);
  expect(flags).toEqual([]);
  await seconds(20, 0.05);
  expect(flags).toEqual(["--memory-saver-mode"]);
  await seconds(10, 0.5);
  expect(flags).toEqual(["--memory-saver-mode", "--no-memory-saver-mode"]);
  await seconds(5, 0);
  expect(flags).toHaveLength(3);
  stop();
  await seconds(20, 0.9);
  expect(flags).toHaveLength(3);
});

test("the runtime knows the flags: one that it does not know would be a line on stderr and nothing else", async () => {
  const { stdout } = await exec(process.execPath, ["--v8-options"]);
  expect(stdout).toContain("--memory-saver-mode");
});

test("the launcher and the agent have what was freed given back at the same bound", () => {
  const launcher = readFileSync(join(import.meta.dirname, "../../../gpve"), "utf8");
  expect(launcher).toMatch(/^ {2}export MALLOC_TRIM_THRESHOLD_=.*\$malloc_trim_threshold/m);
  const [, bound] = /^malloc_trim_threshold=(\d+)$/m.exec(launcher) ?? [];
  expect(OWN_PROGRAM_ENV["MALLOC_TRIM_THRESHOLD_"]).toBe(bound);
});
