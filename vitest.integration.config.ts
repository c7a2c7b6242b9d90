import { resolve } from "node:path";
import { defineConfig } from "vitest/config";
import { longSoaks } from "./tools/test/long-soaks.ts";
import { LongestFirst } from "./tools/test/longest-first.ts";

// Real components: sqlite on disk, etcd, QEMU, namespaces, foreign clients.
export default defineConfig({
  test: {
    include: ["test/{integration,conformance,e2e,mutations}/**/*.test.ts"],
    // Named on the command line they run, as they do in the long run.
    exclude: longSoaks
      .filter(({ file, isWhole }) => isWhole && !process.argv.some((word) => word.endsWith(file)))
      .map(({ file }) => file),
    pool: "forks",
    // A test that asserts nothing cannot fail. What is waited for has as long as the machine may need; vitest's own second is a guess about load.
    expect: { requireAssertions: true, poll: { timeout: 120_000 } },
    // As many as there are cores. With four, both cores computed all the time: an emulated guest took five times as long to boot,
    // and the whole no less.
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // As the launcher has it: hundreds of processes of ours start.
    env: { NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? resolve(".cache/compile") },
    testTimeout: 600_000,
    hookTimeout: 600_000,
  },
});
