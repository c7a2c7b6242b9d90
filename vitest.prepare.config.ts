import { defineConfig } from "vitest/config";

// What the integration tests use: built one after the other, as each build uses all there is.
export default defineConfig({
  test: {
    include: ["test/prepare/*.test.ts"],
    pool: "forks",
    expect: { requireAssertions: true },
    maxWorkers: 1,
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
