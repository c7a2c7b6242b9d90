// Machines are busy: a test or hook that gives up before the configured time fails when nothing is wrong.
import { parseSync } from "@swc/core";
import { expect, test } from "vitest";
import integration from "../../vitest.integration.config.ts";
import unit from "../../vitest.config.ts";
import { read, sources } from "./source-tree.ts";

const CALLS = new Set(["test", "it", "beforeAll", "afterAll", "beforeEach", "afterEach"]);

/** Most files need not be parsed. */
const SAYS_A_TIME = /\},\s*[\d_]+,?\s*\)|timeout: \d/;

interface Syntax {
  readonly type?: string;
  readonly value?: unknown;
  readonly callee?: Syntax;
  readonly object?: Syntax;
  readonly arguments?: readonly { readonly expression: Syntax }[];
  readonly properties?: readonly { readonly key?: Syntax; readonly value?: Syntax }[];
}

/** `test` of `test.skipIf(no)("name", run)`. */
function named({ type, value, callee, object }: Syntax): unknown {
  if (type === "Identifier") return value;
  const inner = type === "MemberExpression" ? object : callee;
  return inner === undefined ? undefined : named(inner);
}

/** Every number that such a call gives as its time, below any depth of the file. */
function timesIn(syntax: unknown): number[] {
  if (typeof syntax !== "object" || syntax === null) return [];
  const within = Object.values(syntax).flatMap(timesIn);
  const call = syntax as Syntax;
  if (call.type !== "CallExpression" || !CALLS.has(String(named(call)))) return within;
  const given = call.arguments?.map(({ expression }) => expression) ?? [];
  const own = given.flatMap((each, at) => [
    ...(at > 0 ? [each] : []),
    ...(each.properties ?? []).flatMap(({ key, value }) => (key?.value === "timeout" ? [value] : [])),
  ]);
  return [...within, ...own.flatMap((each) => (each?.type === "NumericLiteral" ? [Number(each.value)] : []))];
}

test.each([
  ["unit tests", /^packages\/.*\.test\.ts$/, unit],
  ["integration tests", /^test\/(?:integration|conformance|mutations)\/.*\.test\.ts$/, integration],
] as const)("%s have the configured time at least", (_name, which, { test: { testTimeout = 0 } = {} }) => {
  const files = sources().filter((path) => which.test(path));
  expect(files.length).toBeGreaterThan(50);
  const early = files
    .filter((path) => SAYS_A_TIME.test(read(path)))
    .flatMap((path) =>
      timesIn(parseSync(read(path), { syntax: "typescript" }).body)
        .filter((ms) => ms < testTimeout)
        .map((ms) => `${path}: ${ms}`),
    );
  expect(early).toEqual([]);
});
