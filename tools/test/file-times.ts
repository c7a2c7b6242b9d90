// How long each file took, hooks and imports included: vitest's JSON report counts from a file's first test on.
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

// oxlint-disable-next-line import/no-default-export -- vitest loads reporters by it
export default class FileTimes implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const file = process.env["GPVE_FILE_TIMES"];
    if (file === undefined) return;
    const times = modules.map((each) => {
      const { setupDuration, collectDuration, duration } = each.diagnostic();
      return { file: relative(process.cwd(), each.moduleId), ms: setupDuration + collectDuration + duration };
    });
    writeFileSync(file, JSON.stringify(times));
  }
}
