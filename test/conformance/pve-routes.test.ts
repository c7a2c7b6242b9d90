// Every route this product declares, compared with the PVE API facts: name, parameters, types, ranges, required,
// permission. The generated table is what the server validates with, so it is the table that is compared.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";
import { pveRoutes } from "@gpve/contracts/pve/routes.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import { isImplemented } from "@gpve/domain/schema/method-index.ts";
import { methodByKey, pveMethods } from "@gpve/domain/schema/method-table.ts";

const file = join(resolve(process.env["GPVE_REFERENCE"] ?? "../shared/reference/pve"), "pve-api.json");
const hasFacts = existsSync(file);
if (!hasFacts)
  console.warn(`SKIPPED: no PVE facts at ${file}; set GPVE_REFERENCE to the folder that holds pve-api.json`);

test.skipIf(!hasFacts)("every declared route is PVE's, down to the last parameter", () => {
  const facts = new Map(
    (JSON.parse(readFileSync(file, "utf8")) as PveMethod[]).map((method) => [
      `${method.method} ${method.path}`,
      method,
    ]),
  );
  for (const key of Object.keys(pveRoutes)) expect(methodByKey(key), key).toEqual(facts.get(key));
  const implemented = pveMethods.filter(isImplemented).length;
  console.log(
    `${Object.keys(pveRoutes).length} declared routes agree with PVE; ${implemented} of ${facts.size} methods are served`,
  );
});

test("every declared route is known, and has a permission and an audit rule", () => {
  for (const [key, rule] of Object.entries(pveRoutes)) {
    const method = methodByKey(key);
    expect(method, key).toBeDefined();
    expect(method, key).toHaveProperty("permissions");
    expect(["none", "write", "secret"], key).toContain(rule.audit);
    if (method?.method !== "GET")
      expect(rule.audit, `${key} changes something and must be audited`).not.toBe("none");
  }
});
