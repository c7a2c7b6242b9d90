// The walk against the plainest way to say the same: no tree, no memory, every entry looked at anew.
import fc from "fast-check";
import { expect, test } from "vitest";
import { buildAccessModel } from "./model.ts";
import { privilegesAt, rolesAt } from "./testing/at-path.ts";
import type { AclEntry, Pool } from "./types.ts";

const USERS = ["ann@pve", "bob@pve"] as const;
const GROUPS = ["g1", "g2"] as const;
const SEPARATED = "ann@pve!sep";
const OPEN = "ann@pve!open";
const ROLES: Readonly<Record<string, readonly string[]>> = {
  r1: ["VM.Audit", "VM.Console"],
  r2: ["VM.Console", "VM.PowerMgmt"],
  NoAccess: [],
};
const PATHS = [
  "/",
  "/vms",
  "/vms/100",
  "/vms/100/x",
  "/vms/200",
  "/pool",
  "/pool/p1",
  "/pool/p2",
  "/storage/s1",
];
const ASKED = [...PATHS, "/vms/200/deep", "/storage", "/nodes"];

const entries = fc.array(
  fc.record({
    path: fc.constantFrom(...PATHS),
    who: fc.constantFrom(
      ...USERS.map((ugid) => ({ type: "user" as const, ugid })),
      ...GROUPS.map((ugid) => ({ type: "group" as const, ugid })),
      { type: "token" as const, ugid: SEPARATED },
    ),
    roleid: fc.constantFrom(...Object.keys(ROLES)),
    propagate: fc.boolean(),
  }),
  { maxLength: 12 },
);
const memberships = fc.record({
  "ann@pve": fc.subarray([...GROUPS]),
  "bob@pve": fc.subarray([...GROUPS]),
});
const pools = fc.constantFrom<readonly Pool[]>(
  [],
  [{ poolid: "p1", vms: [100], storage: ["s1"] }],
  [
    { poolid: "p1", vms: [100], storage: ["s1"] },
    { poolid: "p2", vms: [200], storage: ["s1"] },
  ],
);

/** From the top down, whoever says something at a level replaces what came from above it. */
function plainRoles(
  acl: readonly AclEntry[],
  groups: readonly string[],
  who: string,
  path: string,
): Set<string> {
  const parts = path.split("/").filter((part) => part !== "");
  const levels = ["/", ...parts.map((_, at) => `/${parts.slice(0, at + 1).join("/")}`)];
  let held = new Set<string>();
  for (const level of levels) {
    const said = (type: AclEntry["type"], ids: readonly string[]) =>
      acl.filter(
        (entry) =>
          entry.path === level &&
          entry.type === type &&
          ids.includes(entry.ugid) &&
          (entry.propagate || level === path),
      );
    const deciding = [said("token", [who]), said("user", [who]), said("group", groups)].find(
      (found) => found.length > 0,
    );
    if (deciding !== undefined) held = new Set(deciding.map(({ roleid }) => roleid));
  }
  return held.has("NoAccess") ? new Set(["NoAccess"]) : held;
}

function plainPrivileges(
  acl: readonly AclEntry[],
  groups: readonly string[],
  known: readonly Pool[],
  who: string,
  path: string,
): Set<string> {
  let roles = plainRoles(acl, groups, who, path);
  const holding = known.filter(
    ({ vms, storage }) =>
      vms.some((vmid) => path === `/vms/${vmid}`) || storage.some((id) => path === `/storage/${id}`),
  );
  const lent = holding.flatMap(({ poolid }) => [...plainRoles(acl, groups, who, `/pool/${poolid}`)]);
  if (!roles.has("NoAccess")) roles = lent.includes("NoAccess") ? new Set() : new Set([...roles, ...lent]);
  return new Set([...roles].flatMap((role) => ROLES[role] ?? []));
}

test("the walk gives what the plain reading of the rules gives", () => {
  fc.assert(
    fc.property(entries, memberships, pools, (drawn, memberOf, known) => {
      // Of two entries for one role the later counts.
      const acl = [
        ...new Map(
          drawn.map(({ path, who, roleid, propagate }) => [
            `${path} ${who.type} ${who.ugid} ${roleid}`,
            { path, ...who, roleid, propagate },
          ]),
        ).values(),
      ];
      const model = buildAccessModel({
        users: USERS.map((userid) => ({ userid, enable: true, expire: 0, groups: memberOf[userid] })),
        groups: GROUPS.map((groupid) => ({ groupid })),
        roles: ["r1", "r2"].map((roleid) => ({ roleid, privileges: ROLES[roleid] ?? [] })),
        tokens: [
          { userid: "ann@pve", tokenid: "sep", privsep: true, expire: 0 },
          { userid: "ann@pve", tokenid: "open", privsep: false, expire: 0 },
        ],
        acl,
        pools: known,
        realms: [],
      });
      const got = (answer: typeof rolesAt, who: string, path: string) =>
        [...answer(model, who, path).keys()].sort();
      for (const path of ASKED) {
        for (const who of USERS) {
          expect(got(rolesAt, who, path)).toEqual([...plainRoles(acl, memberOf[who], who, path)].sort());
          expect(got(privilegesAt, who, path)).toEqual(
            [...plainPrivileges(acl, memberOf[who], known, who, path)].sort(),
          );
        }
        const owner = plainPrivileges(acl, memberOf["ann@pve"], known, "ann@pve", path);
        const own = plainPrivileges(acl, [], known, SEPARATED, path);
        expect(got(rolesAt, SEPARATED, path)).toEqual([...plainRoles(acl, [], SEPARATED, path)].sort());
        expect(got(privilegesAt, SEPARATED, path)).toEqual([...own].filter((each) => owner.has(each)).sort());
        expect(got(privilegesAt, OPEN, path)).toEqual([...owner].sort());
      }
    }),
    { numRuns: 500 },
  );
});
