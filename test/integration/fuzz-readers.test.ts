// Broken input for everything that reads bytes of guests, image authors and archives. Each input must end within bounded
// time and memory, in a result or in the reader's own error. Short here; a million each with
//
//   GPVE_FUZZ_INPUTS=1000000 npx vitest run --config vitest.integration.config.ts fuzz-readers
//
// GPVE_FUZZ_SEED repeats a run; with GPVE_FUZZ_FIRST and GPVE_FUZZ_INPUTS=1 it repeats one input.
import { describe, expect, test } from "vitest";
import { fuzzReader } from "../support/fuzz/fuzz-readers.ts";
import { readerTargets } from "../support/fuzz/reader-targets.ts";

const INPUTS = Number(process.env["GPVE_FUZZ_INPUTS"] ?? 5_000);
const SEED = Number(process.env["GPVE_FUZZ_SEED"] ?? 1);
const FIRST = Number(process.env["GPVE_FUZZ_FIRST"] ?? 0);
const LONG_MS = 7_200_000;

describe("readers of bytes from outside", () => {
  test.each(Object.keys(readerTargets))("%s", { timeout: LONG_MS }, async (reader) => {
    const verdict = await fuzzReader({ reader, seed: SEED, first: FIRST, inputs: INPUTS });
    expect(verdict.fault).toBeUndefined();
    console.log(
      `${reader}: ${verdict.results} read, ${verdict.refusals} refused, slowest ${Math.round(verdict.slowestMs)} ms`,
    );
    // A reader that takes everything, or nothing, was not tried.
    if (INPUTS >= 1_000) expect(Math.min(verdict.results, verdict.refusals)).toBeGreaterThan(INPUTS / 200);
  });

  test("a reader that hangs, eats memory or throws what is not its own is found", async () => {
    const run = { seed: SEED, first: 0, inputs: 300 };
    const fault = async (reader: string): Promise<string | undefined> =>
      (await fuzzReader({ ...run, reader })).fault;
    expect(await fault("broken-throws")).toContain("TypeError");
    expect(await fault("broken-memory")).toMatch(/took \d+ MiB/);
    expect(await fault("broken-slow")).toMatch(/took \d+ ms|no end/);
  });
});
