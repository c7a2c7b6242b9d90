// The command lines PVE's developers expect of their own configurations.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { Dialect, QemuCommand } from "@gpve/domain/vm/argv/command-input.ts";
import { PVE_REVISIONS } from "@gpve/domain/vm/argv/machine/versions.ts";
import { qemuCommand } from "@gpve/domain/vm/argv/qemu-command.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { planDescriptors } from "@gpve/domain/vm/argv/device/net-descriptors.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { isBeforeBlockdev, normalise, optionLines } from "./qemu-cfg2cmd-normalise.ts";
import {
  hostOf,
  pathsOf,
  qemuVersionOf,
  sha256Hex,
  volumesOf,
  type SuiteEnvironment,
} from "./qemu-cfg2cmd-env.ts";

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
    const text = readFileSync(join(suite, name), "utf8");
    const header = readHeader(text);
    const expectedError = withoutPlace(header.get("EXPECT_ERROR"));

    test(`${name} gives PVE's line`, () => {
      const result = run(text, header, env as SuiteEnvironment);
      if (expectedError !== undefined) {
        expect(typeof result === "string" ? result : "no error").toBe(expectedError);
      } else if (typeof result === "string") {
        expect.fail(result);
      } else {
        expect(optionLines(result.argv)).toEqual(expectedLines(name));
        const warnings = result.warnings.map(withoutMark);
        for (const warning of expectedWarnings(text)) expect(warnings).toContain(withoutMark(warning));
      }
      passed++;
    });

    test(`${name} gives the same hardware on our hosts`, () => {
      const environment = env as SuiteEnvironment;
      const result = run(text, header, environment, "stock");
      if (typeof result === "string") {
        expect(result).toBe(expectedError);
      } else if (expectedError !== undefined) {
        expect(expectedError).toMatch(ONLY_PVE_REFUSES);
      } else {
        const expected = expectedLines(name);
        const old = isBeforeBlockdev(expected, qemuVersionOf(environment, header));
        const lines = (argv: readonly string[]) => normalise(withoutFixup(argv, header), old);
        expect(lines(optionLines(result.argv))).toEqual(lines(expected));
      }
      ours++;
    });
  }
});

/** What -drive and interface names cannot do, descriptors and -blockdev can. */
const ONLY_PVE_REFUSES = /requires QEMU machine version >= 10\.0|is too long \(max 15 character\)/;

function run(
  text: string,
  header: ReadonlyMap<string, string>,
  environment: SuiteEnvironment,
  dialect: Dialect = "pve",
): QemuCommand | string {
  try {
    const read = parseVmConfig(text, { vmid: environment.vmid, digestOf }).values;
    const config = dialect === "pve" ? read : inLayoutOf(read, header.get("QEMU_VERSION"));
    const host = hostOf(environment, header);
    return qemuCommand({
      vmid: environment.vmid,
      config,
      host,
      volumes: volumesOf(environment),
      sha256Hex,
      paths: pathsOf(environment.vmid),
      options: {
        dialect,
        vncPassword: true,
        netDescriptors: planDescriptors(config, host, 32).descriptors,
      },
    });
  } catch (error) {
    return messageOf(error);
  }
}

/** Our guests have the newest layout unless they name a version; a case for an older QEMU is about that layout. */
function inLayoutOf(config: VmValues, qemuVersion: string | undefined): VmValues {
  const version = /^\d+\.\d+/.exec(qemuVersion ?? "")?.[0];
  const machine = config["machine"] ?? "pc";
  const [, bare, rest = ""] = /^(?:type=)?(pc|q35)(,.*)?$/.exec(machine) ?? [];
  if (version === undefined || bare === undefined || config["ostype"]?.startsWith("w") === true)
    return config;
  const revision = PVE_REVISIONS[version] ?? 0;
  return {
    ...config,
    machine: `${bare === "q35" ? "pc-q35" : "pc-i440fx"}-${version}+pve${revision}${rest}`,
  };
}

/** Depends on the machine naming no version, which `inLayoutOf` changes. */
function withoutFixup(lines: readonly string[], header: ReadonlyMap<string, string>): readonly string[] {
  if (!header.has("QEMU_VERSION")) return lines;
  return lines.filter((line) => !line.startsWith("-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support="));
}

function readHeader(text: string): ReadonlyMap<string, string> {
  return new Map(headerLines(text));
}

/** Whatever else a case says in its comments is for people. */
function headerLines(text: string): [string, string][] {
  return text.split("\n").flatMap((line): [string, string][] => {
    const match = /^#\s*([A-Z][A-Z_]*)\s*:\s*(.*?)\s*$/.exec(line);
    return match?.[1] === undefined ? [] : [[match[1], match[2] ?? ""]];
  });
}

function expectedWarnings(text: string): string[] {
  return headerLines(text).flatMap(([field, value]) => (/^EXPECT_WARN(?:ING)?$/.test(field) ? [value] : []));
}

/** Warnings of tasks carry a mark that is no part of their text. */
function withoutMark(warning: string): string {
  return warning.replace(/^WARN: /, "").trim();
}

/** Perl tells the file and line of errors without a newline. */
function withoutPlace(error: string | undefined): string | undefined {
  return error?.replace(/ at \S+ line \d+\.?$/, "");
}

function expectedLines(name: string): string[] {
  const words = readFileSync(join(suite, `${name}.cmd`), "utf8")
    .trim()
    .replaceAll(/\s*\\\n\s*/g, " ")
    .matchAll(/((?:'[^']*'|\\.|[^\s'\\])+)/g);
  return optionLines([...words].map(([word]) => word.replaceAll(/'([^']*)'|\\(.)/g, "$1$2")));
}
