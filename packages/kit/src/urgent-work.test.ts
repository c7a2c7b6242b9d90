import { getPriority } from "node:os";
import { expect, test } from "vitest";
import { exec } from "./exec.ts";
import { beginUrgentWork, startUnhurried } from "./urgent-work.ts";

const isRoot = process.getuid?.() === 0;

test.skipIf(!isRoot)(
  "work that somebody waits for goes before other work, until the last of it is done",
  () => {
    const usual = getPriority();
    const [first, second] = [beginUrgentWork(), beginUrgentWork()];
    expect(getPriority()).toBe(Math.min(usual, -5));
    first();
    first();
    expect(getPriority(), "the second is not done").toBe(Math.min(usual, -5));
    second();
    expect(getPriority()).toBe(usual);
  },
);

test.skipIf(!isRoot)("what is started meanwhile is as urgent as it always is", async () => {
  const usual = getPriority();
  const done = beginUrgentWork();
  try {
    const { stdout } = await exec("nice", []);
    expect(Number(stdout)).toBe(usual);
    expect(getPriority(), "and we hurry on").toBe(Math.min(usual, -5));
    expect(() =>
      startUnhurried(() => {
        throw new Error("it is not there");
      }),
    ).toThrow("it is not there");
    expect(getPriority()).toBe(Math.min(usual, -5));
  } finally {
    done();
  }
  expect(startUnhurried(() => getPriority())).toBe(usual);
});
