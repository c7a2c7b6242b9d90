import { defineConfig } from "vitest/config";

const packages = ["contracts", "domain", "kit", "store", "server", "agent", "client", "cli", "talos"];

export default defineConfig({
  test: {
    include: ["packages/*/src/**/*.test.ts", "test/repo.test.ts", "test/repo/*.test.ts"],
    pool: "forks",
    // A test that asserts nothing cannot fail.
    expect: { requireAssertions: true },
    // Generous: tests assert behaviour, and the machine may be busy with others.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: {
      provider: "v8",
      include: ["packages/*/src/**/*.ts"],
      exclude: ["**/gen/**", "**/*.test.ts", "**/testing/**", "**/compose*.ts", "packages/bin/**"],
      reporter: ["text-summary", "json-summary"],
      thresholds: Object.fromEntries(
        packages.map((name) => [`packages/${name}/src/**`, { lines: 80, branches: 80 }]),
      ),
    },
  },
});
