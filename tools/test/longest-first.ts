// The order of the integration files: those that take minutes begin first, so that no core waits for the last of them.
import { relative } from "node:path";
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Longest first. What is not listed comes after them, in vitest's own order. */
const longest: readonly string[] = [
  // Builds what all virtual clusters need where it is not cached.
  "test/integration/vcluster.test.ts",
  "test/integration/crash/vm-crash-copies.test.ts",
  "test/integration/crash/vm-crash-life.test.ts",
  "test/integration/ha.test.ts",
  "test/integration/guest-story.test.ts",
  "test/integration/talos-apply.test.ts",
  "test/integration/clients/opentofu.test.ts",
  "test/integration/clients/packer.test.ts",
];

/** With empty caches they wait for what the first file builds; they look for it when they are loaded. */
const needsClusters = /\/vclusters?[-.]|\/talos-(?:addons|story)/;

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rest = await super.sort(files);
    return rest.toSorted((a, b) => this.#rank(a) - this.#rank(b));
  }

  #rank({ moduleId }: TestSpecification): number {
    const file = relative(this.ctx.config.root, moduleId);
    const at = longest.indexOf(file);
    if (at >= 0) return at;
    return needsClusters.test(file) ? longest.length + 1 : longest.length;
  }
}
