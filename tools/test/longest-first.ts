// The order of files: those that take minutes begin first, so that no core waits for the last of them.
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Longest first. What is not listed comes after them, in vitest's own order. */
export const longest: readonly string[] = [
  // Unit tests.
  "packages/server/src/presentation/permission-comparison.test.ts",
  "packages/agent/src/application/qemu/vm-sagas.test.ts",
  "packages/talos/src/engine/open-cluster.test.ts",
  "packages/server/src/presentation/permission-comparison-below.test.ts",
  "packages/agent/src/application/qemu/restore/restore-saga.test.ts",
  // Integration tests.
  "test/integration/vcluster.test.ts",
  "test/integration/talos-story.test.ts",
  "test/integration/ha.test.ts",
  "test/integration/vcluster-workers.test.ts",
  "test/integration/vcluster-breakouts.test.ts",
  "test/integration/vcluster-sleep.test.ts",
  "test/integration/crash/vm-crash-copies.test.ts",
  "test/integration/crash/vm-crash-life.test.ts",
  "test/integration/migration-faults.test.ts",
  "test/integration/migration.test.ts",
  "test/integration/clients/opentofu.test.ts",
  "test/integration/lab.test.ts",
  "test/integration/quotas-killed.test.ts",
  "test/integration/fuzz-http.test.ts",
];

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rest = await super.sort(files);
    return rest.toSorted((a, b) => this.#rank(a) - this.#rank(b));
  }

  #rank({ moduleId }: TestSpecification): number {
    const file = relative(this.ctx.config.root, moduleId);
    const at = longest.indexOf(file);
    return at >= 0 ? at : longest.length;
  }
}
