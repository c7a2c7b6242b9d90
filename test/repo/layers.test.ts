// The dependency rule must bite: each forbidden import, written into a copy of the layout, has to be reported. Checked
// because dependency-cruiser does not know TypeScript 7 and reads our files through swc.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { exec } from "@gpve/kit/exec.ts";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ROOT } from "./source-tree.ts";

const PLAIN = "export type T = number;\nexport const t = 1;\n";

const innocent = [
  "contracts/src/c.ts",
  "domain/src/d.ts",
  "kit/src/k.ts",
  "kit/src/declared.ts",
  "store/src/s.ts",
  "store/src/port.ts",
  "agent/src/a.ts",
  "agent/src/application/qemu/q.ts",
  "domain/src/vm/v.ts",
  "server/src/application/a.ts",
  "server/src/infrastructure/i.ts",
  "server/src/compose.ts",
];

/** file, its text, the rule that must name it. */
const violations: readonly (readonly [string, string, string])[] = [
  [
    "domain/src/type-of-kit.ts",
    'import type { T } from "@gpve/kit/k.ts"; export type U = T;',
    "domain-is-pure",
  ],
  ["domain/src/value-of-kit.ts", 'import { t } from "@gpve/kit/k.ts"; export const u = t;', "domain-is-pure"],
  [
    "domain/src/node.ts",
    'import { readFileSync } from "node:fs"; export const u = readFileSync;',
    "domain-no-node",
  ],
  [
    "domain/src/node-type.ts",
    'import type { Stats } from "node:fs"; export type U = Stats;',
    "domain-no-node",
  ],
  ["domain/src/npm.ts", 'import pino from "pino"; export const u = pino;', "domain-no-npm"],
  ["domain/src/gone.ts", 'import { u } from "@gpve/kit/gone.ts"; export const v = u;', "no-unresolvable"],
  ["contracts/src/node.ts", 'import * as fs from "fs"; export const u = fs;', "contracts-no-node"],
  ["contracts/src/domain.ts", 'export type { T } from "@gpve/domain/d.ts";', "contracts-import-nothing"],
  ["kit/src/inline-type.ts", 'import { type T } from "@gpve/domain/d.ts"; export type U = T;', "kit"],
  ["kit/src/round.ts", 'import type { V } from "./about.ts"; export type U = V;', ""],
  ["kit/src/about.ts", 'import type { U } from "./round.ts"; export type V = U;', "no-circular"],
  ["store/src/domain.ts", 'import type { T } from "@gpve/domain/d.ts"; export type U = T;', "store"],
  [
    "agent/src/application/guest/kind.ts",
    'import type { T } from "../qemu/q.ts"; export type U = T;',
    "guest-knows-no-kind",
  ],
  [
    "domain/src/guest/model.ts",
    'import type { T } from "../vm/v.ts"; export type U = T;',
    "guest-model-knows-no-kind",
  ],
  ["cli/src/server.ts", 'export type { T } from "@gpve/server/application/a.ts";', "cli"],
  ["talos/src/domain.ts", 'import type { T } from "@gpve/domain/d.ts"; export type U = T;', "talos"],
  ["client/src/kit.ts", 'import { t } from "@gpve/kit/k.ts"; export const u = t;', "client"],
  [
    "server/src/application/down.ts",
    'import type { T } from "../infrastructure/i.ts"; export type U = T;',
    "server-domain-free",
  ],
  [
    "server/src/application/lazy.ts",
    'export const u = () => import("@gpve/agent/a.ts");',
    "server-domain-free",
  ],
  [
    "server/src/application/engine.ts",
    'import { t } from "@gpve/store/s.ts"; export const u = t;',
    "server-domain-free",
  ],
  [
    "server/src/application/wire.ts",
    'import { t } from "../compose.ts"; export const u = t;',
    "server-domain-free",
  ],
  [
    "server/src/infrastructure/up.ts",
    'import type { T } from "../application/a.ts"; export type U = T;',
    "server-infrastructure",
  ],
  [
    "agent/src/application/up.ts",
    'export type { T } from "@gpve/server/application/a.ts";',
    "agent-domain-free",
  ],
  ["agent/src/compose.ts", 'export type { T } from "@gpve/server/application/a.ts";', "agent-without-server"],
  ["bin/src/around.ts", 'export type { T } from "@gpve/server/application/a.ts";', ""],
  ["bin/src/commands/agent.ts", 'export type { T } from "../around.ts";', "agent-without-server"],
  [
    "server/src/presentation/skip.ts",
    'import { t } from "../infrastructure/i.ts"; export const u = t;',
    "server-presentation",
  ],
  [
    "agent/src/application/files.ts",
    'import { readFileSync } from "node:fs"; export const u = readFileSync;',
    "application-no-io",
  ],
  [
    "server/src/application/library.ts",
    'import pino from "pino"; export const u = pino;',
    "application-no-npm",
  ],
  [
    "server/src/presentation/files.ts",
    'import { readFile } from "node:fs/promises"; export const u = readFile;',
    "presentation-no-files",
  ],
  ["store/src/undeclared.ts", 'import pino from "pino"; export const u = pino;', "npm-declared"],
];

let root: string;
let found: string[];

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), "gpve-layers-"));
  const put = (path: string, text: string): void => {
    mkdirSync(dirname(join(root, "packages", path)), { recursive: true });
    writeFileSync(join(root, "packages", path), text);
  };
  for (const name of [".dependency-cruiser.cjs", "package.json", "tsconfig.json"]) {
    cpSync(join(ROOT, name), join(root, name));
  }
  mkdirSync(join(root, "node_modules/@gpve"), { recursive: true });
  symlinkSync(join(ROOT, "node_modules/pino"), join(root, "node_modules/pino"));
  for (const name of readdirSync(join(ROOT, "packages"))) {
    // The supervisor is no npm package.
    if (!existsSync(join(ROOT, "packages", name, "package.json"))) continue;
    put(`${name}/package.json`, "");
    cpSync(join(ROOT, "packages", name, "package.json"), join(root, "packages", name, "package.json"));
    symlinkSync(`../../packages/${name}`, join(root, "node_modules/@gpve", name));
  }
  for (const path of innocent) put(path, PLAIN);
  for (const [path, text] of violations) put(path, `${text}\n`);
  const program = join(ROOT, "node_modules/.bin/depcruise");
  const args = [program, "--config", ".dependency-cruiser.cjs", "--output-type", "json", "packages"];
  const { stdout } = await exec(process.execPath, args, { cwd: root });
  const report = JSON.parse(stdout) as {
    summary: { violations: readonly { from: string; rule: { name: string } }[] };
  };
  found = report.summary.violations.map(({ from, rule }) => `${rule.name}: ${from}`);
});

afterAll(() => rmSync(root, { recursive: true, force: true }));

test.each(violations.filter(([, , rule]) => rule !== ""))("%s is refused: %s", (path, _text, rule) => {
  expect(found).toContain(`${rule}: packages/${path}`);
});

test("innocent files are not", () => {
  const guilty = new Set(violations.map(([path]) => `packages/${path}`));
  expect(found.filter((line) => !guilty.has(line.split(": ")[1] ?? ""))).toEqual([]);
});
