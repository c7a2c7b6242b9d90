// What /api2 refuses, /api/v1 refuses, also where permissions are given and taken away below "/": on one VM, storage,
// pool, node or network, with and without what is below them, to users, groups and tokens with privileges of their own.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { FaceComparison } from "../testing/face-comparison.ts";
import type { Scenario } from "../testing/permission-requests.ts";
import { equivalents } from "../testing/permission-scenarios.ts";
import {
  EVERYTHING,
  openTwoFaces,
  type Grant,
  type TestSubject,
  type TwoFaces,
} from "../testing/two-faces.ts";

let faces: TwoFaces;
let comparison: FaceComparison;

const all = (path: string, more: Partial<Grant> = {}): Grant => ({
  path,
  role: EVERYTHING,
  propagate: true,
  ...more,
});
const flat = (path: string): Grant => all(path, { propagate: false });
const none = (path: string, more: Partial<Grant> = {}): Grant => all(path, { role: "NoAccess", ...more });
const user = (name: string, ...grants: Grant[]): TestSubject => ({ authid: `${name}@pve`, grants });
const token = (owner: string, name: string, privsep: boolean, ...grants: Grant[]): TestSubject => ({
  authid: `${owner}@pve!${name}`,
  privsep,
  grants,
});

const VM = "/vms/100";
const STORAGE = "/storage/local";
const POOL = "/pool/p1";
const NODE = "/nodes/n1";
const NET = "/sdn/zones/localnetwork/vmbr0";

const subjects: readonly TestSubject[] = [
  user("vm", all(VM)),
  user("vm-flat", flat(VM)),
  user("vms", all("/vms")),
  user("vms-flat", flat("/vms")),
  user("vms-but-one", all("/vms"), none(VM)),
  user("all-but-vm", all("/"), none(VM)),
  user("all-but-vm-flat", all("/"), none(VM, { propagate: false })),
  user("root-flat", flat("/")),
  user("storage", all(STORAGE)),
  user("all-but-storage", all("/"), none(STORAGE)),
  user("storages-but-one", all("/storage"), all(VM), all(NET), none(STORAGE)),
  user("tenant", all(VM), all(STORAGE), all(NET)),
  user("pool", all(POOL)),
  user("pool-flat", flat(POOL)),
  user("pool-but-vm", all(POOL), none(VM)),
  user("other-pool", all("/pool/t1")),
  user("node", all(NODE)),
  user("node-flat", flat("/nodes")),
  user("all-but-node", all("/"), none(NODE)),
  user("all-but-net", all("/"), none("/sdn")),
  user("access", all("/access")),
  user("access-flat", flat("/access")),
  user("groups", all("/access/groups")),
  user("realm", all("/access/realm/pve"), all("/access/groups/g1")),
  user("all-but-access", all("/"), none("/access")),
  user("by-group", all(VM, { group: "vm-people" })),
  // What is said of a user goes before what is said of its groups.
  user("group-no", all(VM), none(VM, { group: "locked-out" })),
  user("group-yes", none(VM), all(VM, { group: "let-in" })),
  token("vms", "separate", true),
  token("vms", "one", true, all(VM)),
  token("vms", "more", true, all("/")),
  token("vms", "whole", false),
  token("all-but-vm", "more", true, all(VM)),
  token("tenant", "vm", true, all(VM)),
  token("pool", "pool", true, all(POOL)),
  token("pool", "flat", true, flat(POOL)),
];

/** Where a scenario is about what a privilege is about. */
function placeOf(privilege: string, { v1 }: Scenario): string {
  const vmid = /\b10[0-2]\b/.exec(`${v1.path} ${JSON.stringify(v1.body)}`)?.[0];
  if (privilege.startsWith("VM.")) return `/vms/${vmid ?? "100"}`;
  return privilege.startsWith("Pool.") ? "/pool/t1" : NODE;
}

beforeAll(async () => {
  faces = await openTwoFaces();
  comparison = new FaceComparison(faces);
  for (const subject of subjects) await faces.addSubject(subject);
});
afterAll(async () => {
  await faces.close();
  process.stdout.write(
    `permission comparison below /: ${comparison.combinations} combinations of operation and user, on both faces\n`,
  );
});

describe("/api/v1 refuses what /api2 refuses, with permissions below /", () => {
  const compared = [...equivalents].flatMap(([operation, list]) =>
    "own" in list ? [] : list.map((scenario) => [`${operation}: ${scenario.what}`, scenario] as const),
  );

  test.each(compared)("%s", async (_name, scenario) => {
    const askers = subjects.map(({ authid }) => ({
      authid,
      holds: (privilege: string, about: Scenario) =>
        faces.holds(authid, placeOf(privilege, about), privilege),
    }));
    expect(await comparison.differences(scenario, askers)).toEqual([]);
  });

  test("everybody was refused something, and all but those who have nothing got something", () => {
    const { outcomes } = comparison;
    const never = (what: "through" | "refused") =>
      subjects.map(({ authid }) => authid).filter((authid) => (outcomes.get(authid)?.[what] ?? 0) === 0);
    expect(never("refused")).toEqual([]);
    expect(never("through")).toEqual([]);
  });
});
