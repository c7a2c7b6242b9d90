import { defineConfig } from "vitest/config";
import { coverageThresholds } from "./tools/test/coverage-gate.ts";
import { LongestFirst } from "./tools/test/longest-first.ts";

export default defineConfig({
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/repo.test.ts", "test/repo/*.test.ts"],
    pool: "forks",
    // By itself vitest leaves one core out: of two, half of the machine.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // Nothing happens at import time, so files share what they import: half of the time went into loading it anew.
    isolate: false,
    // A test that asserts nothing cannot fail. What is waited for has as long as the machine may need; vitest's own second is a guess about load.
    expect: { requireAssertions: true, poll: { timeout: 30_000 } },
    // Generous: tests assert behaviour, and the machine may be busy with others.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    coverage: {
      provider: "v8",
      include: ["packages/*/src/**/*.ts"],
      exclude: ["**/gen/**", "**/*.test.ts", "**/testing/**", "**/compose*.ts", "packages/bin/**"],
      reporter: ["text-summary", "json-summary"],
      thresholds: coverageThresholds,
    },
  },
});
