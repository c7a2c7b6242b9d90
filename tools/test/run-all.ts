// `./gpve test`: every check and every test that this machine can run, then one plain closing line.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

interface VitestReport {
  readonly numPassedTests: number;
  readonly numFailedTests: number;
  readonly numPendingTests: number;
  readonly numTodoTests: number;
  readonly testResults: readonly {
    readonly name: string;
    readonly status: string;
    readonly message?: string;
    readonly assertionResults: readonly {
      readonly fullName: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

const root = resolve(import.meta.dirname, "../..");
process.chdir(root);
const bin = join(root, "node_modules/.bin");
const env = { ...process.env, PATH: `${bin}:${process.env["PATH"] ?? ""}`, FORCE_COLOR: "0", NO_COLOR: "1" };
const scratch = mkdtempSync(join(tmpdir(), "gpve-test-"));
const totals = { passed: 0, failed: 0, skipped: 0 };
/** Said again at the very end, where a reader of a cut log looks. */
const failures: string[] = [];

function announce(text: string): void {
  console.log(`\n=== ${text}`);
}

/** A check counts as one test. */
function check(name: string, command: string, args: readonly string[]): void {
  announce(name);
  const started = Date.now();
  const result = spawnSync(command, args, { stdio: "inherit", env });
  const ok = result.status === 0;
  totals[ok ? "passed" : "failed"]++;
  if (!ok) failures.push(name);
  console.log(`${ok ? "ok" : "FAILED"}: ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
}

function vitest(name: string, args: readonly string[]): void {
  announce(name);
  const file = join(scratch, `${name.replaceAll(/\W+/g, "-")}.json`);
  const result = spawnSync(
    "vitest",
    ["run", "--reporter=default", "--reporter=json", `--outputFile.json=${file}`, ...args],
    {
      stdio: "inherit",
      env,
    },
  );
  if (!existsSync(file)) {
    totals.failed++;
    failures.push(`${name}: vitest wrote no report`);
    return;
  }
  const report = JSON.parse(readFileSync(file, "utf8")) as VitestReport;
  totals.passed += report.numPassedTests;
  totals.failed += report.numFailedTests;
  totals.skipped += report.numPendingTests + report.numTodoTests;
  // A file that could not be loaded, or a coverage threshold missed, fails the run without failing a test.
  const broken = report.testResults.filter(
    (file) => file.status === "failed" && file.assertionResults.length === 0,
  );
  totals.failed += broken.length;
  for (const file of broken) failures.push(`${file.name}: ${shortened(file.message ?? "did not load")}`);
  for (const file of report.testResults)
    for (const test of file.assertionResults.filter(({ status }) => status === "failed"))
      failures.push(`${file.name}: ${test.fullName}: ${shortened(test.failureMessages.join("\n"))}`);
  if (result.status !== 0 && report.numFailedTests === 0 && broken.length === 0) {
    totals.failed++;
    failures.push(`${name}: see above (a coverage threshold, or an error outside a test)`);
  }
}

/** What a program said last is what tells why it failed. */
function shortened(whole: string): string {
  const text = whole
    .split("\n")
    .filter((line) => !/^\s+at /.test(line))
    .join("\n");
  return text.length <= 1_200 ? text : `${text.slice(0, 200)}\n[...]\n${text.slice(-1_000)}`;
}

const only = process.argv[2];
const wanted = (part: string): boolean => only === undefined || only === part;
try {
  if (wanted("check")) {
    check("format", "oxfmt", ["--check", "."]);
    check("lint", "oxlint", ["--type-aware", "--deny-warnings", "."]);
    check("types", "npm", ["run", "-s", "check:types"]);
    check("layers", "npm", ["run", "-s", "check:layers"]);
    check("generated files", "npm", ["run", "-s", "check:gen"]);
  }
  if (wanted("unit")) vitest("unit tests with coverage", ["--coverage"]);
  if (wanted("integration")) vitest("integration tests", ["--config", "vitest.integration.config.ts"]);
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
for (const failure of failures) console.log(`\nFAILED: ${failure}`);
console.log(`\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exit(totals.failed === 0 ? 0 : 1);
