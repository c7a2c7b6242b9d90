// A test of the tests: whatever breaks the product in one of these places makes a test fail.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { mutations } from "./mutations.ts";

const root = resolve(import.meta.dirname, "../..");
const scratch = mkdtempSync(join(tmpdir(), "gpve-mutations-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
const long = process.env["GPVE_MUTATIONS"] === "all";

interface Report {
  readonly numFailedTests: number;
  readonly numPassedTests: number;
}

const listed = mutations.map((each) => [each.name, each] as const);

async function report(name: string, tests: readonly string[]): Promise<Report> {
  const outputFile = join(scratch, `${name}.json`);
  const args = ["run", "--config", "test/mutations/vitest.mutation.config.ts", "--reporter=json"];
  await exec(join(root, "node_modules/.bin/vitest"), [...args, `--outputFile=${outputFile}`, ...tests], {
    cwd: root,
    env: { ...MINIMAL_ENV, PATH: process.env["PATH"] ?? "", GPVE_MUTATION: name },
    okCodes: [0, 1],
    timeoutMs: 170_000,
  });
  return JSON.parse(readFileSync(outputFile, "utf8")) as Report;
}

describe("the tests notice that", () => {
  test.each(listed)("%s: its place is there, once", (_name, { file, find }) => {
    expect(readFileSync(join(root, file), "utf8").split(find)).toHaveLength(2);
  });

  test.each(listed.filter(([, { always }]) => long || always === true))("%s", async (name, { tests }) => {
    const { numFailedTests, numPassedTests } = await report(name, tests);
    expect(numFailedTests).toBeGreaterThan(0);
    // A product that cannot even be loaded would prove nothing.
    expect(numPassedTests).toBeGreaterThan(0);
  });
});
