// Permission cases that PVE's developers keep for their own implementation: user.cfg files, and per file rows of
// user, path and the roles (by ACL alone) or privileges (pools included) expected.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { buildAccessModel } from "@gpve/domain/access/model.ts";
import { privilegesAt, rolesAt } from "@gpve/domain/access/testing/at-path.ts";
import { parseUserCfg } from "@gpve/domain/access/testing/user-cfg.ts";

interface Row {
  readonly what: "roles" | "privs";
  readonly user: string;
  readonly path: string;
  readonly expect: readonly string[];
}

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "access-control");
const present = existsSync(join(suite, "expected.json"));
if (!present) {
  console.warn(
    `SKIPPED access-control conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`,
  );
}

describe.skipIf(!present)("PVE's own permission cases", () => {
  const expected = (present ? JSON.parse(readFileSync(join(suite, "expected.json"), "utf8")) : {}) as Record<
    string,
    readonly Row[]
  >;
  let ran = 0;
  let passed = 0;
  afterAll(() => console.log(`access-control: ${passed} of ${ran} rows agree`));

  for (const [file, rows] of Object.entries(expected)) {
    test(`every row of ${file} agrees`, () => {
      const cfg = parseUserCfg(readFileSync(join(suite, file), "utf8"));
      const model = buildAccessModel({ ...cfg, realms: [] });
      const wrong: unknown[] = [];
      for (const row of rows) {
        const answer = row.what === "roles" ? rolesAt : privilegesAt;
        const all = [...answer(model, row.user, row.path).keys()].toSorted();
        // gpve's own privileges, which PVE has no word for.
        const got = row.what === "privs" ? all.filter((name) => !/^(?:VC|Tenant)\./.test(name)) : all;
        ran++;
        if (JSON.stringify(got) === JSON.stringify(row.expect.toSorted())) passed++;
        else wrong.push({ ...row, got });
      }
      expect(wrong).toEqual([]);
    });
  }
});
