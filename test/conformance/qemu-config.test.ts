// Configuration files that PVE's developers keep for their own reader and writer, and for restoring backups.
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { messageOf } from "@gpve/contracts/errors.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import { readBackupMap, restoreConfigText } from "@gpve/domain/vm/change/restore-config.ts";
import { toValues } from "@gpve/domain/vm/spec/spec-values.ts";
import { toTypedSpec } from "@gpve/domain/vm/spec/typed-spec.ts";
import { writeVmConfig } from "@gpve/domain/vm/config/write-config.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "qemu-server-config");
const present = existsSync(join(suite, "parse-config-input"));
if (!present) {
  console.warn(
    `SKIPPED qemu-server-config conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`,
  );
}

const digestOf = (text: string) => createHash("sha1").update(text).digest("hex");
const read = (...path: string[]) => readFileSync(join(suite, ...path), "utf8");
const cases = (folder: string) =>
  present ? readdirSync(join(suite, folder)).filter((name) => name.endsWith(".conf")) : [];

describe.skipIf(!present)("PVE's own configuration files", () => {
  let ran = 0;
  let passed = 0;
  afterAll(() => console.log(`qemu-server-config: ${passed} of ${ran} cases agree`));

  const check = (got: string, expected: string) => {
    ran++;
    if (got === expected) passed++;
    expect(got).toBe(expected);
  };

  for (const name of cases("parse-config-input")) {
    for (const strict of [false, true]) {
      const mode = strict ? "strict" : "non-strict";
      test(`${name} reads and writes back in ${mode} mode`, () => {
        const errorFile = join("parse-config-expected", `${name}.${mode}.error`);
        const input = read("parse-config-input", name);
        const expectedFile = join("parse-config-expected", name);
        const output = existsSync(join(suite, expectedFile)) ? read(expectedFile) : input;
        const expected = existsSync(join(suite, errorFile)) ? read(errorFile).trimEnd() : output;
        let got: string;
        try {
          got = writeVmConfig(parseVmConfig(input, { vmid: 8006, strict, digestOf }));
        } catch (error) {
          got = messageOf(error);
        }
        check(got, expected);
      });
    }
  }

  for (const name of cases("restore-config-input")) {
    test(`${name} restores`, () => {
      const input = read("restore-config-input", name);
      const expected = read("restore-config-expected", name);
      const got = restoreConfigText(input, {
        volumes: targets(name.replace(/\.conf$/, ""), input, expected),
        unique: false,
        ...madeUp(input, expected),
      });
      check(got, expected);
    });
  }

  const commandSuite = join(suite, "../qemu-server-cfg2cmd");
  test.skipIf(!existsSync(commandSuite))("reads every configuration of the command-line suite", () => {
    const files = readdirSync(commandSuite).filter((name) => name.endsWith(".conf"));
    const problems: string[] = [];
    for (const file of files) {
      const warn = (message: string) => problems.push(`${file}: ${message}`);
      const config = parseVmConfig(readFileSync(join(commandSuite, file), "utf8"), {
        vmid: 8006,
        digestOf,
        warn,
      });
      const again = parseVmConfig(writeVmConfig(config), { vmid: 8006, digestOf, warn });
      if (JSON.stringify(again.values) !== JSON.stringify(sorted(config.values)))
        problems.push(`${file}: differs`);
    }
    console.log(`qemu-server-cfg2cmd: ${files.length} configurations read`);
    expect(problems).toEqual([]);
  });
});

const folders = ["qemu-server-config", "qemu-server-cfg2cmd", "qemu-server-snapshot"].map((name) =>
  join(suite, "..", name),
);
const everyConf = folders
  .filter((folder) => existsSync(folder))
  .flatMap((folder) =>
    readdirSync(folder, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && /\.conf$|\/qemu-server\//.test(join(entry.parentPath, entry.name)))
      .map((entry) => join(entry.parentPath, entry.name)),
  );

describe.skipIf(!present)("PVE's own configuration files as a typed spec", () => {
  test("every section of every file passes through it unchanged", () => {
    const changed: string[] = [];
    let [sections, keys, typed] = [0, 0, 0];
    for (const file of everyConf) {
      const config = parseVmConfig(readFileSync(file, "utf8"), { vmid: 8006, digestOf });
      for (const values of [config.values, ...Object.values(config.snapshots)]) {
        const spec = toTypedSpec(values);
        sections++;
        keys += Object.keys(values).length;
        typed += Object.keys(values).length - Object.keys(spec.config ?? {}).length;
        if (!isDeepStrictEqual(toValues(spec).values, { ...values })) changed.push(file);
      }
    }
    console.log(
      `typed specs: ${everyConf.length} files, ${sections} sections, ${typed} of ${keys} keys typed alone`,
    );
    expect(changed).toEqual([]);
    expect(everyConf.length).toBeGreaterThan(150);
    expect(typed).toBeGreaterThan(keys / 3);
  });
});

/** Drive -> restored volume: numbered in the order of the archive, unless the result names another target. */
function targets(vmid: string, input: string, expected: string): Record<string, string> {
  const named = readBackupMap(input).map(({ key, format }, index) => [
    key,
    `target:${vmid}/vm-${vmid}-disk-${index}.${format === "" ? "raw" : format}`,
  ]);
  const shown = [...expected.matchAll(/^([a-z]+\d+):\s*(target:[^,\s]+)/gm)].map(([, key, file]) => [
    key,
    file,
  ]);
  return Object.fromEntries([...named, ...shown]) as Record<string, string>;
}

/** Whatever is made up during a restore is taken from the result, in its order, so that the rest can be compared. */
function madeUp(input: string, expected: string) {
  const fresh = (pattern: RegExp) =>
    [...expected.matchAll(pattern)].map(([found]) => found).filter((found) => !input.includes(found));
  const macs = fresh(/(?<==)[0-9A-F]{2}(?::[0-9A-F]{2}){5}/gi);
  const uuids = fresh(/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/gi);
  return {
    newMac: () => macs.shift() ?? "BC:24:11:00:00:01",
    newUuid: () => uuids.shift() ?? "00000000-0000-4000-8000-000000000000",
  };
}

function sorted(values: Readonly<Record<string, string>>): Record<string, string> {
  const { description, ...rest } = values;
  const entries = Object.entries(rest).toSorted(([a], [b]) => (a < b ? -1 : 1));
  // The reader sets the description last.
  return Object.fromEntries(description === undefined ? entries : [...entries, ["description", description]]);
}
