import { defineConfig } from "vitest/config";

// Real components: sqlite on disk, etcd, QEMU, namespaces, foreign clients. Few files at a time: two cores.
export default defineConfig({
  test: {
    include: ["test/{integration,conformance,e2e,mutations}/**/*.test.ts"],
    pool: "forks",
    // A test that asserts nothing cannot fail.
    expect: { requireAssertions: true },
    maxWorkers: 2,
    testTimeout: 180_000,
    hookTimeout: 180_000,
  },
});
