// A line for each test that failed, before the pages that vitest prints about each: a reader of a cut log sees them all.
import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

const WIDTH = 300;

// oxlint-disable-next-line import/no-default-export -- vitest loads reporters by it
export default class FailedTests implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    for (const each of modules) {
      const file = relative(process.cwd(), each.moduleId);
      for (const error of each.errors()) say(file, error.message);
      for (const test of each.children.allTests("failed"))
        say(`${file} > ${test.fullName}`, test.result().errors?.[0]?.message);
    }
  }
}

function say(what: string, message = "no message"): void {
  console.log(`failed: ${what}: ${message.replaceAll(/\s+/g, " ").slice(0, WIDTH)}`);
}
