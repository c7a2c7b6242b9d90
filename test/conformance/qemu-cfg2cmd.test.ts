// The command lines PVE's developers expect of their own configurations.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Dialect, QemuCommand } from "@gpve/domain/vm/argv/command-input.ts";
import { qemuCommand } from "@gpve/domain/vm/argv/qemu-command.ts";
import { parseVmConfig } from "@gpve/domain/vm/parse-config.ts";
import { normalise } from "./qemu-cfg2cmd-normalise.ts";
import { hostOf, pathsOf, sha256Hex, volumesOf, type SuiteEnvironment } from "./qemu-cfg2cmd-env.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "qemu-server-cfg2cmd");
const present = existsSync(join(suite, "ENV.json"));
if (!present) {
  console.warn(
    `SKIPPED qemu-server-cfg2cmd conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`,
  );
}

const digestOf = (text: string) => createHash("sha1").update(text).digest("hex");
const env = present
  ? (JSON.parse(readFileSync(join(suite, "ENV.json"), "utf8")) as SuiteEnvironment)
  : undefined;
const cases = present
  ? readdirSync(suite, { recursive: true, encoding: "utf8" })
      .filter((name) => name.endsWith(".conf"))
      .toSorted()
  : [];

describe.skipIf(env === undefined)("PVE's own command lines", () => {
  let passed = 0;
  let ours = 0;
  afterAll(() => {
    console.log(`qemu-server-cfg2cmd: ${passed} of ${cases.length} cases agree exactly in PVE's dialect`);
    console.log(`qemu-server-cfg2cmd: ${ours} of ${cases.length} cases agree normalised in ours`);
  });

  for (const name of cases) {
    test(`${name} gives PVE's line`, () => {
      const text = readFileSync(join(suite, name), "utf8");
      const header = readHeader(text);
      const expectedError = header.get("EXPECT_ERROR");
      const expectedWarning = header.get("EXPECT_WARN") ?? header.get("EXPECT_WARNING");
      const result = run(text, header, env as SuiteEnvironment);
      if (expectedError !== undefined) {
        expect(result).toBe(expectedError);
      } else if (typeof result === "string") {
        expect.fail(result);
      } else {
        const expected = readFileSync(join(suite, `${name}.cmd`), "utf8");
        expect(lines(result.argv)).toEqual(expectedLines(expected));
        if (expectedWarning !== undefined) expect(result.warnings).toContain(expectedWarning);
      }
      passed++;
    });

    test(`${name} gives the same hardware on our hosts`, () => {
      const text = readFileSync(join(suite, name), "utf8");
      const header = readHeader(text);
      const result = run(text, header, env as SuiteEnvironment, "stock");
      if (typeof result === "string") {
        expect(result).toBe(header.get("EXPECT_ERROR"));
      } else {
        const expected = expectedLines(readFileSync(join(suite, `${name}.cmd`), "utf8"));
        expect(normalise(lines(result.argv))).toEqual(normalise(expected));
      }
      ours++;
    });
  }
});

const descriptors = Object.fromEntries(
  Array.from({ length: 32 }, (_, index) => [`net${index}`, { tap: [100 + index] }]),
);

function run(
  text: string,
  header: ReadonlyMap<string, string>,
  environment: SuiteEnvironment,
  dialect: Dialect = "pve",
): QemuCommand | string {
  try {
    return qemuCommand({
      vmid: environment.vmid,
      config: parseVmConfig(text, { vmid: environment.vmid, digestOf }).values,
      host: hostOf(environment, header),
      volumes: volumesOf(environment),
      sha256Hex,
      paths: pathsOf(environment.vmid),
      options: { dialect, netDescriptors: descriptors },
    });
  } catch (error) {
    return messageOf(error);
  }
}

function readHeader(text: string): ReadonlyMap<string, string> {
  const header = new Map<string, string>();
  for (const line of text.split("\n")) {
    const match = /^#\s*([A-Z_]+):\s*(.*?)\s*$/.exec(line);
    if (match?.[1] !== undefined) header.set(match[1], match[2] ?? "");
  }
  return header;
}

/** One option with its value per line; a value that is an option itself starts the next. */
function lines(argv: readonly string[]): string[] {
  const result: string[] = [];
  for (const word of argv) {
    if (word.startsWith("-") || result.length === 0) result.push(word);
    else result[result.length - 1] += ` ${word}`;
  }
  return result;
}

function expectedLines(text: string): string[] {
  const words = text
    .trim()
    .replaceAll(/\s*\\\n\s*/g, " ")
    .matchAll(/'([^']*)'|(\S+)/g);
  return lines([...words].map(([, quoted, bare]) => quoted ?? bare ?? ""));
}
