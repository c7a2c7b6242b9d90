import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import fc from "fast-check";
import { AppError } from "@gpve/contracts/errors.ts";
import { BUILTIN_ROLES, PRIVILEGES } from "./builtin-roles.ts";
import { OWN_PRIVILEGES, OWN_ROLES } from "./own-roles.ts";
import { rolesPage } from "./roles-page.ts";
import { RULE_ATOMS, VERBS } from "./rule-table.ts";
import { privilegesOfRules, rulesOfPrivileges, type RoleRule } from "./role-rules.ts";

const errorsOf = (rule: RoleRule): Readonly<Record<string, string>> => {
  try {
    privilegesOfRules([rule]);
  } catch (err) {
    if (err instanceof AppError) return err.errors ?? {};
    throw err;
  }
  return {};
};

describe("roles written as rules", () => {
  test("every privilege has one line, and no verb of a resource two", () => {
    expect(RULE_ATOMS.map(({ privilege }) => privilege).toSorted()).toEqual([...PRIVILEGES].toSorted());
    const said = RULE_ATOMS.flatMap(({ resource, verbs }) => verbs.map((verb) => `${verb} ${resource}`));
    expect(new Set(said).size).toBe(said.length);
    for (const { verbs } of RULE_ATOMS) for (const verb of verbs) expect(VERBS).toContain(verb);
  });

  test("any set of privileges is the same after it was written as rules", () => {
    fc.assert(
      fc.property(fc.subarray([...PRIVILEGES]), (privileges) => {
        expect(privilegesOfRules(rulesOfPrivileges(privileges))).toEqual(privileges.toSorted());
      }),
      { numRuns: 500 },
    );
  });

  test("rules read again are the same rules", () => {
    for (const { privileges } of BUILTIN_ROLES.values()) {
      const rules = rulesOfPrivileges(privileges);
      expect(rulesOfPrivileges(privilegesOfRules(rules))).toEqual(rules);
    }
    expect(rulesOfPrivileges(BUILTIN_ROLES.get("cluster-admin")?.privileges ?? [])).toEqual([
      { apiGroups: ["gpve.io"], resources: ["*"], verbs: ["*"] },
    ]);
  });

  test("a rule reads as in Kubernetes, with short names too", () => {
    const read = { apiGroups: ["gpve.io"], resources: ["vms"], verbs: ["get", "list", "watch"] };
    expect(privilegesOfRules([read])).toEqual(["VM.Audit"]);
    const change = { resources: ["virtualmachines"], verbs: ["update", "patch"] };
    expect(privilegesOfRules([change])).toEqual(PRIVILEGES.filter((name) => name.startsWith("VM.Config.")));
    expect(privilegesOfRules([{ resources: ["vclusters"], verbs: ["*"] }])).toEqual([
      "VC.Allocate",
      "VC.Audit",
      "VC.Config",
    ]);
    expect(privilegesOfRules([{ apiGroups: ["*"], resources: ["*"], verbs: ["*"] }])).toEqual(PRIVILEGES);
  });

  test.each<[string, RoleRule, string, RegExp]>([
    [
      "a part of a privilege",
      { resources: ["vms"], verbs: ["get"] },
      "spec.rules[0].verbs",
      /'list', 'watch': VM\.Audit/,
    ],
    [
      "half of what several are",
      { resources: ["vms"], verbs: ["patch"] },
      "spec.rules[0].verbs",
      /cannot be given without 'update'.*VM\.Config\.CDROM, /,
    ],
    [
      "a verb that maps to nothing",
      { resources: ["nodes/log"], verbs: ["get", "delete"] },
      "spec.rules[0].verbs",
      /it knows get/,
    ],
    [
      "a verb nobody knows",
      { resources: ["vms"], verbs: ["exec"] },
      "spec.rules[0].verbs",
      /'exec' is no verb/,
    ],
    [
      "a resource that maps to nothing",
      { resources: ["pods"], verbs: ["*"] },
      "spec.rules[0].resources",
      /virtualmachines/,
    ],
    [
      "a part that there is not",
      { resources: ["vms/exec"], verbs: ["*"] },
      "spec.rules[0].resources",
      /virtualmachines\/console/,
    ],
    [
      "a kind without privileges",
      { resources: ["tasks"], verbs: ["*"] },
      "spec.rules[0].resources",
      /no privileges of its own/,
    ],
    [
      "single objects",
      { resources: ["vms"], verbs: ["*"], resourceNames: ["100"] },
      "spec.rules[0].resourceNames",
      /bind the role on \/vms\/<vmid>/,
    ],
    [
      "reading everything",
      { resources: ["*"], verbs: ["get"] },
      "spec.rules[0].resources",
      /name the resources/,
    ],
    [
      "another API",
      { apiGroups: ["apps"], resources: ["vms"], verbs: ["*"] },
      "spec.rules[0].apiGroups",
      /'apps' has no resources/,
    ],
  ])("refuses %s, with the reason", (_what, rule, field, why) => {
    expect(errorsOf(rule)[field]).toMatch(why);
  });
});

describe("our own roles", () => {
  test("PVE's roles are as PVE has them, and Administrator is everything", () => {
    expect(BUILTIN_ROLES.get("Administrator")?.privileges).toEqual(PRIVILEGES);
    for (const [roleid, { privileges }] of BUILTIN_ROLES) {
      if (roleid === "Administrator" || Object.hasOwn(OWN_ROLES, roleid)) continue;
      expect(privileges.filter((name) => Object.hasOwn(OWN_PRIVILEGES, name))).toEqual([]);
    }
  });

  test("who administers a tenant can give its other roles and nothing that reaches out of it", () => {
    const admin = BUILTIN_ROLES.get("tenant-admin")?.privileges ?? [];
    for (const roleid of ["vm-operator", "vc-operator", "viewer"]) {
      expect(BUILTIN_ROLES.get(roleid)?.privileges.filter((name) => !admin.includes(name))).toEqual([]);
    }
    const outside =
      /^(?:Permissions|Realm|Group|User)\.|^Sys\.(?!Audit)|^(?:Datastore|SDN)\.Allocate$|^Mapping\.Modify$/;
    expect(admin.filter((name) => outside.test(name))).toEqual([]);
  });

  test("viewers change nothing", () => {
    expect(BUILTIN_ROLES.get("viewer")?.privileges.every((name) => name.endsWith(".Audit"))).toBe(true);
  });
});

test("the page is current", () => {
  const page = new URL("../../../../docs/reference/roles.md", import.meta.url);
  expect(readFileSync(page, "utf8"), "run: node tools/gen/roles.ts").toBe(rolesPage());
});
