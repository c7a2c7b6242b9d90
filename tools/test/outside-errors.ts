// Errors that no test caught: vitest's JSON report leaves them out, so that a second try of failed files would hide them.
import { writeFileSync } from "node:fs";
import type { Reporter } from "vitest/node";

// oxlint-disable-next-line import/no-default-export -- vitest loads reporters by it
export default class OutsideErrors implements Reporter {
  onTestRunEnd(
    _modules: unknown,
    errors: readonly { readonly name?: string; readonly message: string }[],
  ): void {
    const file = process.env["GPVE_OUTSIDE_ERRORS"];
    if (file === undefined) return;
    writeFileSync(file, JSON.stringify(errors.map(({ name, message }) => `${name ?? "Error"}: ${message}`)));
  }
}
