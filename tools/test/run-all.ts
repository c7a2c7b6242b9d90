// `./gpve test [check|unit|integration] [--long] [--strict]`: every check and every test that this machine can run, then one
// plain closing line. `--long` adds the soaks that take hours, with a new seed each time unless GPVE_FUZZ_SEED is set.
// `--strict` fails for what needed a second try, too.
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { type AskedRun, type Part, readAskedRun } from "./asked-run.ts";
import { type CoverageSummary, missedCoverage } from "./coverage-gate.ts";
import { judgeFirstTries, type FailedFile } from "./first-tries.ts";
import { leftBehind, thingsOfTests } from "./left-behind.ts";
import { longSoaks } from "./long-soaks.ts";
import { type FileTime, RunTimes } from "./run-times.ts";
import { watchStandstills } from "./standstills.ts";
import { waitingFiles } from "./waiting-files.ts";

interface FileResult {
  readonly name: string;
  readonly status: string;
  readonly message?: string;
  readonly assertionResults: readonly {
    readonly fullName: string;
    readonly status: string;
    readonly failureMessages: readonly string[];
  }[];
}

interface VitestReport {
  readonly testResults: readonly FileResult[];
}

const { isLong, isStrict, only } = askedOrUsage();
const root = resolve(import.meta.dirname, "../..");
process.chdir(root);
const bin = join(root, "node_modules/.bin");
const env = {
  ...process.env,
  PATH: `${bin}:${process.env["PATH"] ?? ""}`,
  FORCE_COLOR: "0",
  NO_COLOR: "1",
  // As the launcher has it: hundreds of processes of ours start, and each would compile everything again.
  NODE_COMPILE_CACHE: process.env["NODE_COMPILE_CACHE"] ?? join(root, ".cache/compile"),
};
const scratch = mkdtempSync(join(tmpdir(), "gpve-test-"));
const totals = { passed: 0, failed: 0, skipped: 0 };
/** Said again at the very end, where a reader of a cut log looks. */
const failures: string[] = [];
/** What failed at its first try: counted and named at the end, with its reasons. */
const firstTries: FailedFile[] = [];
/** A machine that stands still for seconds breaks a few files, once; a change that breaks something breaks more, or twice. */
const SECOND_TRIES_AT_MOST = 5;
const standstills = watchStandstills();
const times = new RunTimes();

function askedOrUsage(): AskedRun {
  try {
    return readAskedRun(process.argv.slice(2));
  } catch (err) {
    console.error((err as Error).message);
    process.exit(2);
  }
}

function announce(text: string): void {
  console.log(`\n=== ${text}`);
}

/** A check counts as one test. What it says is kept together: several run at once. */
async function check(name: string, command: string, args: readonly string[]): Promise<void> {
  const started = Date.now();
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], env });
  const said: Buffer[] = [];
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (part: Buffer) => said.push(part));
  const ok = await new Promise<boolean>((done) => {
    child.on("error", (err) => {
      said.push(Buffer.from(`${command} does not start: ${err.message}\n`));
      done(false);
    });
    child.on("close", (code) => done(code === 0));
  });
  totals[ok ? "passed" : "failed"]++;
  if (!ok) failures.push(name);
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  console.log(`${Buffer.concat(said).toString("utf8")}${ok ? "ok" : "FAILED"}: ${name} (${seconds} s)`);
}

async function checks(): Promise<void> {
  announce("checks");
  const end = times.begin("checks");
  // The longest first: they run beside each other, and few of them use both cores all the time.
  await Promise.all([
    check("lint", "oxlint", ["--type-aware", "--deny-warnings", "."]),
    check("types", "npm", ["run", "-s", "check:types"]),
    check("unused code", "npm", ["run", "-s", "check:unused"]),
    check("layers", "npm", ["run", "-s", "check:layers"]),
    check("generated files", "npm", ["run", "-s", "check:gen"]),
    check("format", "oxfmt", ["--check", "."]),
  ]);
  end();
}

interface VitestOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** With these words, a few files that failed are tried once more, alone. */
  readonly again?: readonly string[];
  readonly countsCoverage?: boolean;
}

interface Outcome {
  readonly report?: VitestReport;
  readonly clean: boolean;
  readonly outside: readonly string[];
}

async function vitest(name: string, args: readonly string[], options: VitestOptions = {}): Promise<void> {
  announce(name);
  const end = times.begin(name);
  const outcome = await runVitest(name, args, options.env);
  end();
  // Where no file failed, vitest has judged it.
  if (options.countsCoverage === true && failedFilesOf(outcome.report).length > 0) judgeCoverage(name);
  await judgeOrTryAgain(name, [outcome], options.again);
}

/**
 * Both cores compute; beside them, one after the other, run the files that wait for most of their time. Those come first when
 * they have something to do: they have leases to keep.
 */
async function integrationTests(): Promise<void> {
  const name = "integration tests";
  announce(name);
  const config = ["--config", "vitest.integration.config.ts"];
  const end = times.begin(name);
  const lanes = [
    { lane: `${name} that compute`, args: waitingFiles.map((file) => `--exclude=${file}`), niceness: 5 },
    { lane: `${name} that wait`, args: ["--maxWorkers=1", ...waitingFiles], niceness: 0 },
  ].map(async ({ lane, args, niceness }) => {
    const endLane = times.begin(lane, true);
    const outcome = await runVitest(lane, [...config, ...args], {}, niceness);
    endLane();
    return outcome;
  });
  const outcomes = await Promise.all(lanes);
  end();
  await judgeOrTryAgain(name, outcomes, config);
}

async function judgeOrTryAgain(
  name: string,
  outcomes: readonly Outcome[],
  words?: readonly string[],
): Promise<void> {
  const failed = outcomes.flatMap(({ report }) => failedFilesOf(report));
  const again = words !== undefined && failed.length <= SECOND_TRIES_AT_MOST ? failed : [];
  for (const outcome of outcomes) judge(name, outcome, again);
  if (words === undefined || again.length === 0) return;
  const files = again.map((file) => relative(root, file.name));
  const title = `${name}, second try of ${files.length} failed files, alone`;
  await vitest(title, [...words, "--maxWorkers=1", ...files]);
}

function failedFilesOf(report: VitestReport | undefined): readonly FileResult[] {
  return report?.testResults.filter(({ status }) => status === "failed") ?? [];
}

/** `again`: files that are tried once more. */
function judge(name: string, { report, clean, outside }: Outcome, again: readonly FileResult[] = []): void {
  // Nobody knows which test they belong to, so no second try makes them good.
  for (const error of outside) {
    totals.failed++;
    failures.push(`${name}: an error outside a test: ${shortened(error)}`);
  }
  if (report === undefined) {
    totals.failed++;
    failures.push(`${name}: vitest wrote no report`);
    return;
  }
  for (const file of report.testResults) {
    if (again.includes(file))
      firstTries.push({ file: relative(root, file.name), failures: whatFailed(file) });
    else count(file);
  }
  // A coverage threshold that was missed fails the run without failing a file.
  if (!clean && failedFilesOf(report).length === 0 && outside.length === 0) {
    totals.failed++;
    failures.push(`${name}: see above (a coverage threshold?)`);
  }
}

function judgeCoverage(name: string): void {
  const file = join(root, "coverage/coverage-summary.json");
  const missed = existsSync(file)
    ? missedCoverage(JSON.parse(readFileSync(file, "utf8")) as CoverageSummary, root)
    : ["no coverage was counted"];
  for (const line of missed) {
    totals.failed++;
    failures.push(`${name}: ${line}`);
  }
}

async function runVitest(
  name: string,
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
  niceness = 0,
): Promise<Outcome> {
  const file = join(scratch, `${name.replaceAll(/\W+/g, "-")}.json`);
  const outsideFile = `${file}.outside`;
  const timesFile = `${file}.times`;
  // Ours first: what failed is said in a line each before vitest's own pages about it.
  const own = ["failed-tests.ts", "outside-errors.ts", "file-times.ts"];
  const reporters = own.map((reporter) => `--reporter=${join(root, "tools/test", reporter)}`);
  reporters.push("--reporter=default", "--reporter=json", `--outputFile.json=${file}`);
  const child = spawn("nice", ["-n", String(niceness), "vitest", "run", ...reporters, ...args], {
    stdio: "inherit",
    env: { ...env, ...more, GPVE_OUTSIDE_ERRORS: outsideFile, GPVE_FILE_TIMES: timesFile },
  });
  const clean = await new Promise<boolean>((done) => {
    child.on("error", () => done(false));
    child.on("close", (code) => done(code === 0));
  });
  if (existsSync(timesFile)) times.add(JSON.parse(readFileSync(timesFile, "utf8")) as readonly FileTime[]);
  const outside = existsSync(outsideFile)
    ? (JSON.parse(readFileSync(outsideFile, "utf8")) as readonly string[])
    : [];
  if (!existsSync(file)) return { clean: false, outside };
  const report = JSON.parse(readFileSync(file, "utf8")) as VitestReport;
  return { report, clean, outside };
}

function count(file: FileResult): void {
  for (const { status } of file.assertionResults) {
    if (status === "passed") totals.passed++;
    else if (status === "failed") totals.failed++;
    else totals.skipped++;
  }
  if (file.status !== "failed") return;
  // A file that could not be loaded fails without failing a test.
  if (!file.assertionResults.some(({ status }) => status === "failed")) totals.failed++;
  failures.push(...reasonsOf(file));
}

function whatFailed(file: FileResult): string[] {
  const tests = file.assertionResults.filter(({ status }) => status === "failed");
  if (tests.length === 0) return [file.message || "did not load"];
  return tests.map((test) => `${test.fullName}: ${test.failureMessages.join("\n")}`);
}

function reasonsOf(file: FileResult): string[] {
  return whatFailed(file).map((text) => `${file.name}: ${shortened(text)}`);
}

/** What a program said last is what tells why it failed. */
function shortened(whole: string): string {
  const text = whole
    .split("\n")
    .filter((line) => !/^\s+at /.test(line))
    .join("\n");
  return text.length <= 1_200 ? text : `${text.slice(0, 200)}\n[...]\n${text.slice(-1_000)}`;
}

const before = thingsOfTests(scratch);
const wanted = (part: Part): boolean => only === undefined || only === part;
try {
  if (wanted("check")) await checks();
  if (wanted("unit"))
    await vitest("unit tests with coverage", ["--coverage", "--coverage.reportOnFailure"], {
      again: ["--config", "vitest.config.ts"],
      countsCoverage: true,
    });
  if (wanted("integration") || isLong)
    await vitest("what the tests need", ["--config", "vitest.prepare.config.ts"]);
  if (wanted("integration")) await integrationTests();
  if (isLong) {
    const seed = { GPVE_FUZZ_SEED: process.env["GPVE_FUZZ_SEED"] ?? String(Date.now() % 1_000_000) };
    for (const { name, file, isUnit, env: more } of longSoaks) {
      const config = isUnit === true ? "vitest.config.ts" : "vitest.integration.config.ts";
      await vitest(name, ["--config", config, file], { env: { ...seed, ...more } });
    }
  }
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
if (!isLong) for (const { name } of longSoaks) console.log(`only with --long: ${name}`);
const { excused, unexplained } = judgeFirstTries(firstTries, new Date().toISOString().slice(0, 10));
for (const { file, reason } of excused)
  console.log(`\nfailed at the first try, cause known: ${file}: ${reason}`);
for (const { file, failures: said } of unexplained) {
  const text = `${file} at its first try, whose cause is not known:\n${said.map(shortened).join("\n")}`;
  if (!isStrict) {
    console.log(`\nUNSTEADY: ${text}`);
    continue;
  }
  totals.failed++;
  failures.push(text);
}
for (const line of standstills.end()) console.log(line);
const firstTriesSaid = `${firstTries.length} files failed at their first try, ${excused.length} of them for known causes`;
const left = leftBehind(before, thingsOfTests(scratch));
if (left.length > 0) console.log(`\nleft on this machine: ${left.length}\n  ${left.join("\n  ")}`);
console.log(`\n${times.lines().join("\n")}`);
for (const failure of failures) console.log(`\nFAILED: ${failure}`);
console.log(
  `\n${firstTriesSaid}\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`,
);
process.exit(totals.failed === 0 ? 0 : 1);
