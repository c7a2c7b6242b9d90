import { describe, expect, test } from "vitest";
import { Gpvectl, type RunOptions } from "../../testing/run-gpvectl.ts";
import { expireSeconds } from "./fields.ts";
import { splitTokenName } from "../token/token-name.ts";

/** Runs one command that writes and gives back what was sent. */
async function sent(route: string, argv: readonly string[], options: RunOptions = {}): Promise<string> {
  await using ctl = await Gpvectl.create();
  ctl.api.pve(route, null);
  const ran = await ctl.run(argv, options);
  expect(ran).toMatchObject({ code: 0, err: "" });
  const [verb, path] = route.split(" ");
  const request = ctl.api.last(`${verb} /api2/json${path}`);
  return `${ran.out.trim()} | ${decodeURIComponent(request.body)}${request.query.toString()}`;
}

describe("writes", () => {
  test.each([
    [
      "POST /access/groups",
      ["group", "create", "ops", "--comment", "c"],
      "Created group ops. | groupid=ops&comment=c",
    ],
    ["DELETE /access/groups/ops", ["group", "delete", "ops"], "Deleted group ops. | "],
    [
      "POST /access/roles",
      ["role", "create", "R", "VM.Audit", "Sys.Audit"],
      "Created role R. | roleid=R&privs=VM.Audit,Sys.Audit",
    ],
    [
      "PUT /access/roles/R",
      ["role", "set", "R", "VM.Audit", "--append"],
      "Changed role R. | privs=VM.Audit&append=1",
    ],
    ["DELETE /access/roles/R", ["role", "delete", "R"], "Deleted role R. | "],
    [
      "PUT /access/acl",
      ["acl", "grant", "/pool/dev", "PVEAdmin", "--user", "a@pve", "--user", "b@pve", "--no-propagate"],
      "Granted PVEAdmin on /pool/dev. | path=/pool/dev&roles=PVEAdmin&users=a@pve,b@pve&propagate=0",
    ],
    [
      "PUT /access/acl",
      ["acl", "revoke", "/", "PVEAdmin", "--group", "g", "--token", "a@pve!t"],
      "Revoked PVEAdmin on /. | path=/&roles=PVEAdmin&groups=g&tokens=a@pve!t&delete=1",
    ],
    ["DELETE /access/users/a@pve/token/t", ["token", "delete", "a@pve!t"], "Deleted token a@pve!t. | "],
    ["POST /pools", ["pool", "create", "dev"], "Created pool dev. | poolid=dev"],
    [
      "PUT /pools",
      ["pool", "set", "dev", "--vms", "100,101", "--remove", "--allow-move"],
      "Changed pool dev. | poolid=dev&vms=100,101&delete=1&allow-move=1",
    ],
    ["DELETE /pools", ["pool", "delete", "dev"], "Deleted pool dev. | poolid=dev"],
    ["DELETE /access/users/a@pve", ["user", "delete", "a@pve"], "Deleted user a@pve. | "],
    [
      "PUT /access/users/a@pve",
      ["user", "set", "a@pve", "--disable", "--groups", "g", "--append-groups", "--expire", "1970-01-02"],
      "Changed user a@pve. | groups=g&expire=86400&enable=0&append=1",
    ],
    [
      "POST /access/users",
      ["user", "create", "a@pve", "--email", "a@b.c", "--disabled"],
      "Created user a@pve. | userid=a@pve&email=a@b.c&enable=0",
    ],
  ] as const)("%s: %j", async (route, argv, text) => {
    expect(await sent(route, argv)).toBe(text);
  });

  test("passwords come from the terminal, twice, or from standard input", async () => {
    const create = ["user", "create", "a@pve", "--password"];
    expect(await sent("POST /access/users", create, { answers: ["hunter22", "hunter22"] })).toBe(
      "Created user a@pve. | userid=a@pve&password=hunter22",
    );
    const set = ["user", "password", "a@pve", "--password-stdin"];
    expect(await sent("PUT /access/password", set, { stdin: "hunter22\n" })).toBe(
      "Set the password of a@pve. | userid=a@pve&password=hunter22",
    );
    await using ctl = await Gpvectl.create();
    const differ = await ctl.run(create, { answers: ["a", "b"] });
    expect(differ).toMatchObject({ code: 2, err: expect.stringContaining("the two passwords differ") });
    expect(await ctl.run(set)).toMatchObject({
      code: 2,
      err: expect.stringContaining("carries no password"),
    });
    expect(ctl.api.requests).toEqual([]);
  });

  test("contradictions and grants to nobody are refused here", async () => {
    await using ctl = await Gpvectl.create();
    expect((await ctl.run(["user", "set", "a@pve", "--enable", "--disable"])).err).toContain(
      "exclude each other",
    );
    expect((await ctl.run(["acl", "grant", "/", "PVEAdmin"])).err).toContain("nobody is named");
  });

  test("a new token's secret is printed alone, so that scripts can take it", async () => {
    await using ctl = await Gpvectl.create();
    const answer = { "full-tokenid": "a@pve!t", info: { privsep: 0 }, value: "5ec-ret" };
    ctl.api.pve("POST /access/users/a@pve/token/t", answer);
    const ran = await ctl.run(["token", "create", "a@pve!t", "--full-privileges", "--expire", "never"]);
    expect(ran.out).toBe("a@pve!t=5ec-ret\n");
    expect(ran.err).toBe("Keep it now: the secret is not shown again.\n");
    expect(ctl.api.requests[0]?.body).toBe("expire=0&privsep=0");
    const json = await ctl.run(["token", "create", "a@pve!t", "-o", "json"]);
    expect(JSON.parse(json.out)).toEqual(answer);
  });
});

describe("reads", () => {
  test("users, groups, roles, permissions, tokens and realms as tables", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api
      .pve("GET /access/users", [
        { userid: "root@pam", enable: 1, expire: 0, groups: "a,b", "realm-type": "pam" },
      ])
      .pve("GET /access/groups", [{ groupid: "ops", users: "a@pve", comment: "on call" }])
      .pve("GET /access/roles", [{ roleid: "NoAccess", special: 1, privs: "" }])
      .pve("GET /access/acl", [
        { path: "/", type: "user", ugid: "a@pve", roleid: "PVEAdmin", propagate: 1 },
        { path: "/vms", type: "group", ugid: "ops", roleid: "PVEAdmin", propagate: 0 },
      ])
      .pve("GET /access/users/a@pve/token", [{ tokenid: "t", privsep: 1, expire: 0 }])
      .pve("GET /access/domains", [{ realm: "pam", type: "pam", comment: "Linux" }]);
    expect((await ctl.run(["user", "list"])).out).toBe(
      "USER      ENABLED  GROUPS  REALM  EXPIRES  COMMENT\nroot@pam  yes      a,b     pam    never    -\n",
    );
    expect((await ctl.run(["group", "list"])).out).toBe("GROUP  USERS  COMMENT\nops    a@pve  on call\n");
    expect((await ctl.run(["role", "list"])).out).toBe(
      "ROLE      BUILT IN  PRIVILEGES\nNoAccess  yes       -\n",
    );
    expect((await ctl.run(["acl", "list", "--path", "/vms"])).out).toBe(
      "PATH  TYPE   WHO  ROLE      PROPAGATE\n/vms  group  ops  PVEAdmin  no\n",
    );
    expect((await ctl.run(["token", "list", "a@pve", "-o", "yaml"])).out).toBe(
      "- tokenid: t\n  privsep: 1\n  expire: 0\n",
    );
    expect((await ctl.run(["realm", "list"])).out).toBe("REALM  TYPE  COMMENT\npam    pam   Linux\n");
  });

  test("one user, group, role and pool, and the permissions of someone", async () => {
    await using ctl = await Gpvectl.create();
    ctl.api
      .pve("GET /access/users/a@pve", { enable: 1, groups: ["ops"], tokens: { ci: { privsep: 1 } } })
      .pve("GET /access/groups/ops", { members: ["a@pve"], comment: "c" })
      .pve("GET /access/roles/R", { "VM.Audit": 1, "Sys.Audit": 1 })
      .pve("GET /access/permissions", { "/vms": { "VM.Console": 1, "VM.Audit": 0 } })
      .pve("GET /pools", [
        {
          poolid: "dev",
          comment: "c",
          members: [{ id: "qemu/100", type: "qemu", node: "n1", name: "web", status: "running" }],
        },
      ]);
    expect((await ctl.run(["user", "show", "a@pve"])).out).toBe(
      "User:     a@pve\nEnabled:  yes\nGroups:   ops\nTokens:   ci\n",
    );
    expect((await ctl.run(["group", "show", "ops"])).out).toBe(
      "Group:    ops\nComment:  c\nMembers:  a@pve\n",
    );
    expect((await ctl.run(["role", "show", "R"])).out).toBe("Sys.Audit\nVM.Audit\n");
    expect(JSON.parse((await ctl.run(["role", "show", "R", "-o", "json"])).out)).toEqual({
      "VM.Audit": 1,
      "Sys.Audit": 1,
    });
    expect((await ctl.run(["user", "permissions", "a@pve"])).out).toBe(
      "PATH  PRIVILEGES\n/vms  VM.Audit,VM.Console\n",
    );
    expect((await ctl.run(["user", "permissions", "-o", "yaml"])).out).toContain("VM.Console: 1");
    expect((await ctl.run(["pool", "show", "dev"])).out).toBe(
      "Pool:     dev\nComment:  c\n\nMEMBER    TYPE  NODE  NAME  STATUS\nqemu/100  qemu  n1    web   running\n",
    );
    expect(JSON.parse((await ctl.run(["pool", "show", "dev", "-o", "json"])).out)).toHaveProperty("members");
  });
});

test("expiry dates and token names are checked here", () => {
  expect(expireSeconds("never")).toBe(0);
  expect(expireSeconds("2026-01-02T03:04:05Z")).toBe(1_767_323_045);
  for (const bad of ["", "tomorrow", "2026-13-01", "5"])
    expect(() => expireSeconds(bad)).toThrow(/not a date/);
  expect(splitTokenName("a@pve!t.1")).toEqual({ userid: "a@pve", tokenid: "t.1" });
  for (const bad of ["a@pve", "a!t", "a@pve!", "a@pve!t=s", "!t"])
    expect(() => splitTokenName(bad)).toThrow();
});
