import { defineConfig } from "vitest/config";
import { LongestFirst } from "./tools/test/longest-first.ts";

// Real components: sqlite on disk, etcd, QEMU, namespaces, foreign clients.
export default defineConfig({
  test: {
    include: ["test/{integration,conformance,e2e,mutations}/**/*.test.ts"],
    pool: "forks",
    // A test that asserts nothing cannot fail. What is waited for has as long as the machine may need; vitest's own second is a guess about load.
    expect: { requireAssertions: true, poll: { timeout: 30_000 } },
    // More than there are cores: files wait for boots, leases and deadlines most of their time.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
