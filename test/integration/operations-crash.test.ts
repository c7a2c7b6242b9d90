import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { exec } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

const COUNT = 200;
const KILLS = 6;
const child = new URL("./fixtures/operations-child.ts", import.meta.url).pathname;

interface Ended {
  readonly id: string;
  readonly state: string;
  readonly args: { readonly n: number };
  readonly steps: readonly { readonly name: string; readonly state: string }[];
}

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "gpve-operations-"));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const effects = (): string[] => {
  const path = join(directory, "effects");
  return existsSync(path) ? readFileSync(path, "utf8").split("\n").filter(Boolean) : [];
};

/** Starts the process and kills it -9 once it has got `more` effects further. */
async function killedLife(more: number): Promise<void> {
  const goal = effects().length + more;
  const life = startChild(process.execPath, [child, directory, String(COUNT)]);
  const deadline = performance.now() + 60_000;
  while (effects().length < goal && performance.now() < deadline) await sleep(2);
  life.signal("SIGKILL");
  expect(await life.exited).toBe("SIGKILL");
}

describe("kill -9 in the middle of 200 queued operations", () => {
  it("every one ends done or undone, none stuck, none twice", async () => {
    for (let kill = 0; kill < KILLS; kill++) await killedLife(20 + kill * 13);
    expect(existsSync(join(directory, "result.json"))).toBe(false);
    await exec(process.execPath, [child, directory, String(COUNT)], { timeoutMs: 120_000 });

    const result = JSON.parse(readFileSync(join(directory, "result.json"), "utf8")) as {
      readonly counts: unknown;
      readonly lastLines: readonly number[];
      readonly operations: readonly Ended[];
    };
    expect(result.counts).toEqual({ waiting: 0, running: 0 });
    expect(result.operations).toHaveLength(COUNT);
    expect(new Set(result.operations.map(({ id }) => id)).size).toBe(COUNT);
    expect(result.lastLines.every((count) => count === 1)).toBe(true);

    const seen = effects();
    expect(new Set(seen).size).toBe(seen.length);
    let undone = 0;
    for (const { state, args, steps } of result.operations) {
      const own = seen.filter((line) => line.split(" ")[1] === String(args.n));
      const begun = own.filter((line) => line.startsWith("+")).map((line) => line.slice(2));
      const reverted = own.filter((line) => line.startsWith("-")).map((line) => line.slice(2));
      if (state === "done") {
        expect(begun).toEqual(["a", "b", "c"].map((name) => `${args.n} ${name}`));
        expect(reverted).toEqual([]);
      } else {
        undone += 1;
        expect(state).toBe("failed");
        expect(reverted).toEqual(begun.toReversed());
        expect(steps.some((step) => step.state === "undoFailed")).toBe(false);
      }
    }
    expect(undone).toBeGreaterThanOrEqual(COUNT / 10);
    expect(undone).toBeLessThan(COUNT / 2);
  });
});
