// House rules that no linter knows. What each rule protects is in docs/architecture.md and CONTRIBUTING.md.
import { existsSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { AppError, errorCodes, errorKinds, type ErrorCode } from "@gpve/contracts/errors.ts";
import { pveRoutes } from "@gpve/contracts/pve/routes.ts";
import { problemOf } from "@gpve/contracts/v1/problem.ts";
import { v1Routes } from "@gpve/contracts/v1/routes.ts";
import { describe, expect, test } from "vitest";
import { generatePveFiles } from "../tools/gen/pve-files.ts";
import { foldInto, parseChange, releaseSection } from "../tools/release/changes.ts";
import { allFiles, isGenerated, isTest, read, ROOT, sources } from "./repo/source-tree.ts";

const lines = (path: string): string[] => read(path).split("\n");
/** "path:line: text" of every line that matches. */
const hits = (paths: readonly string[], pattern: RegExp): string[] =>
  paths.flatMap((path) =>
    lines(path).flatMap((line, index) =>
      pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [],
    ),
  );

describe("sources", () => {
  // Each may start processes for a reason of its own; everything else goes through the first.
  const spawners = new Set([
    "packages/kit/src/exec.ts",
    // detached and long-lived processes
    "packages/kit/src/spawn.ts",
    // what integration tests keep running beside them: etcd, writers that get killed
    "packages/kit/src/testing/child.ts",
    // types into a real terminal, which exec's one-shot input cannot
    "test/integration/gpvectl.test.ts",
    // the test runner, which hands its terminal to the tools it starts
    "tools/test/run-all.ts",
  ]);

  test("only the exec wrapper and the declared files start processes", () => {
    const found = sources().filter((path) => /["'](node:)?child_process["']/.test(read(path)));
    expect(found.filter((path) => !spawners.has(path) && path !== "test/repo.test.ts")).toEqual([]);
  });

  test("nothing is left to do without an issue", () => {
    const text = allFiles().filter(
      (path) => /\.(ts|md|json|ya?ml|proto|c|h|sh)$/.test(path) && !isGenerated(path),
    );
    const own = text.filter((path) => path !== "test/repo.test.ts" && path !== "CONTRIBUTING.md");
    expect(hits(own, /\b(TODO(?!\(#\d+\))|FIXME|XXX|HACK)\b/)).toEqual([]);
  });

  test("files stay small enough to have one idea", () => {
    const limit = (path: string): number => (isTest(path) ? 600 : 400);
    const long = sources().filter((path) => lines(path).length > limit(path) + 1);
    expect(long.map((path) => `${path}: ${lines(path).length}`)).toEqual([]);
  });

  test("a field that may be absent is given by `given`, not by a condition of its own", () => {
    const spelled = /\.\.\.\(\s*([\w.]+) === undefined\s*\?\s*\{\}\s*:\s*\{\s*(?:\w+: )?\1,?\s*\}\s*\)/u;
    expect(spelled.test(`...(a.b === ${"undefined"} ? {} : { b: a.b })`)).toBe(true);
    const spelling = sources().filter((path) => spelled.test(read(path)));
    expect(spelling, "write ...given({ x }), from @gpve/contracts/given.ts").toEqual([]);
  });

  test("file names are kebab-case and say something", () => {
    const names = sources().filter((path) => !path.endsWith(".config.ts"));
    expect(
      names.filter((path) => !/(^|\/)[a-z0-9]+(-[a-z0-9]+)*(\.(test|saga|bench))?\.ts$/.test(path)),
    ).toEqual([]);
    expect(
      names.filter((path) => /(^|\/)(utils?|misc|common|helpers?|manager|index)\.ts$/.test(path)),
    ).toEqual([]);
  });

  test("a test stands beside what it tests or below test/", () => {
    const tests = sources().filter((path) => path.endsWith(".test.ts"));
    expect(tests.filter((path) => !/^(packages\/[a-z]+\/src|test|tools|bench)\//.test(path))).toEqual([]);
  });

  test("no test is switched off or run alone", () => {
    const tests = sources().filter((path) => path.endsWith(".test.ts"));
    expect(hits(tests, /\b(test|it|describe)\.(only|todo|skip)\b(?!If)/)).toEqual([]);
  });

  test("nothing names the machine or the place where it was written", () => {
    const text = allFiles().filter((path) => !/\.(png|ico|gz|woff2?)$/.test(path));
    const own = text.filter((path) => path !== "test/repo.test.ts" && !isGenerated(path));
    expect(
      hits(
        own,
        /(^|[\s"'`(=:])\/work\/|\/root\/|registry\.(npmjs|yarnpkg)|https?:\/\/[^\s"']*(registry|mirror)/,
      ),
    ).toEqual([]);
    expect(read("package-lock.json")).not.toMatch(/"resolved": "http/);
  });
});

describe("packages", () => {
  const manifests = [
    "package.json",
    ...allFiles("packages").filter((path) => /^packages\/\w+\/package\.json$/.test(path)),
  ];
  interface Manifest {
    readonly version: string;
    readonly license: string;
    readonly dependencies?: Record<string, string>;
    readonly devDependencies?: Record<string, string>;
    readonly optionalDependencies?: Record<string, string>;
  }
  const parsed = manifests.map((path) => [path, JSON.parse(read(path)) as Manifest] as const);

  test("every dependency is pinned to one version", () => {
    const loose = parsed.flatMap(([path, manifest]) =>
      Object.entries({
        ...manifest.dependencies,
        ...manifest.devDependencies,
        ...manifest.optionalDependencies,
      })
        .filter(([, version]) => !/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version))
        .map(([name, version]) => `${path}: ${name}@${version}`),
    );
    expect(loose).toEqual([]);
  });

  test("there is one version and one licence", () => {
    expect(new Set(parsed.map(([, manifest]) => `${manifest.version} ${manifest.license}`)).size).toBe(1);
  });
});

describe("routes", () => {
  interface Method {
    readonly method: string;
    readonly path: string;
    readonly permissions?: unknown;
  }
  const table = JSON.parse(read("packages/contracts/src/gen/pve-api.json")) as Method[];
  const methods = new Map(table.map((method) => [`${method.method} ${method.path}`, method]));
  /** Without a permission in PVE's own description only root@pam may call; each is here on purpose. */
  const rootOnly = new Set<string>([
    "POST /nodes/{node}/storage/{storage}/content/{volume}",
    "DELETE /cluster/config/nodes/{node}",
  ]);

  test("every declared PVE route exists in PVE and has a permission", () => {
    const keys = Object.keys(pveRoutes);
    expect(keys.filter((key) => !methods.has(key))).toEqual([]);
    const bare = keys.filter((key) => (methods.get(key)?.permissions ?? null) === null);
    expect(bare.filter((key) => !rootOnly.has(key))).toEqual([]);
  });

  test("every change is audited, on both faces", () => {
    const pve = Object.entries(pveRoutes).filter(
      ([key, { audit }]) => !key.startsWith("GET ") && audit === "none",
    );
    expect(pve.map(([key]) => key)).toEqual([]);
    const ours = v1Routes().filter((route) => route.method !== "GET" && route.audit === "none");
    expect(ours.map((route) => `${route.method} ${route.path}`)).toEqual(unauditedByDesign);
  });

  /** They change nothing: a plan is only computed. */
  const unauditedByDesign = ["POST /plan", "POST /simulate/place", "POST /simulate/node-loss"];

  test("every route of /api/v1 has a permission and a name of its own", () => {
    const routes = v1Routes();
    expect(routes.filter((route) => route.permission === undefined)).toEqual([]);
    expect(new Set(routes.map((route) => route.operationId)).size).toBe(routes.length);
    expect(new Set(routes.map((route) => `${route.method} ${route.path}`)).size).toBe(routes.length);
  });
});

describe("documentation", () => {
  test("docs/reference/errors.md lists every error code with its kind, status and exit code, and no other", () => {
    const rows = [
      ...read("docs/reference/errors.md").matchAll(/^\| `([\w.]+)` +\| (\w+) +\| (\d+) +\| (\d+) +\|/gm),
    ];
    const documented = rows.map(([, code, kind, http, exit]) => `${code} ${kind} ${http} ${exit}`);
    const expected = Object.entries(errorCodes).map(
      ([code, kind]) =>
        `${code} ${kind} ${problemOf(new AppError(code as ErrorCode, "x")).status} ${errorKinds[kind].exit}`,
    );
    expect(documented.toSorted()).toEqual(expected.toSorted());
  });

  test("links between pages lead somewhere", () => {
    const pages = allFiles().filter((path) => path.endsWith(".md"));
    const broken = pages.flatMap((page) =>
      [...read(page).matchAll(/\]\((?!https?:|#|mailto:)([^)#\s]+)[^)]*\)/g)]
        .map(([, target = ""]) => target)
        .filter((target) => !existsSync(resolve(ROOT, dirname(page), target)))
        .map((target) => `${page}: ${target}`),
    );
    expect(broken).toEqual([]);
  });

  test("decisions have a number, a date, a status and their three parts", () => {
    const decisions = allFiles("docs/adr").filter((path) => path.endsWith(".md"));
    const numbers = decisions.map((path) => Number(/adr\/(\d{4})-[a-z0-9-]+\.md$/.exec(path)?.[1]));
    expect(numbers).toEqual(numbers.map((_number, index) => index + 1));
    for (const path of decisions) {
      const page = read(path);
      expect(page, path).toMatch(/^# \d{4} /);
      expect(page, path).toMatch(/^- Date: \d{4}-\d{2}-\d{2}$/m);
      expect(page, path).toMatch(/^- Status: (proposed|accepted|superseded by \d{4})$/m);
      for (const part of ["Context", "Decision", "Consequences"])
        expect(page, path).toContain(`\n## ${part}\n`);
    }
  });
});

describe("changes", () => {
  test("every waiting change is well-formed", () => {
    const files = allFiles("changes").filter((path) => path.endsWith(".md"));
    const bad = files.flatMap((path) => {
      try {
        parseChange(read(path));
        return [];
      } catch (err) {
        return [`${path}: ${String(err)}`];
      }
    });
    expect(bad).toEqual([]);
  });

  test("folding them into the changelog groups them by kind below Unreleased", () => {
    const changes = [
      parseChange("kind: fixed\n\nA thing\nworks.\n"),
      parseChange("kind: added\n\nAnother thing."),
      parseChange("kind: fixed\n\nMore."),
    ];
    const section = releaseSection("1.2.0", "2026-01-02", changes);
    expect(foldInto("# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2025-12-01\n", section)).toBe(
      [
        "# Changelog\n\n## [Unreleased]\n",
        "## [1.2.0] - 2026-01-02\n",
        "### Added\n\n- Another thing.\n",
        "### Fixed\n\n- A thing works.\n- More.\n",
        "## [1.1.0] - 2025-12-01\n",
      ].join("\n"),
    );
    expect(() => foldInto("# Changelog\n", section)).toThrow("Unreleased");
  });

  test.each([
    "",
    "kind: nice\n\nA.",
    "kind: fixed\n\nA.\n\nB.",
    "kind: fixed\n\nno end",
    "just text.",
    "added: In one line.",
  ])("refuses %j", (source) => expect(() => parseChange(source)).toThrow());

  test("the changelog has a place for them", () =>
    expect(read("CHANGELOG.md")).toContain("\n## [Unreleased]\n"));
});

const reference = resolve(ROOT, process.env["GPVE_REFERENCE"] ?? "../shared/reference/pve");
test.skipIf(!existsSync(reference))(
  "generated tables are current (skipped without PVE's description: set GPVE_REFERENCE to its directory)",
  () => {
    const stale = generatePveFiles((file) => read(join(reference, file))).filter(
      ([name, text]) => read(join("packages/contracts/src/gen", name)) !== text,
    );
    expect(stale.map(([name]) => name)).toEqual([]);
  },
);
