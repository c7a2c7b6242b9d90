import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AccessFixture } from "../../testing/access-fixture.ts";
import { openAccessFixture } from "../../testing/access-fixture.ts";

let fix: AccessFixture;
beforeEach(async () => {
  fix = await openAccessFixture();
});
afterEach(() => fix[Symbol.asyncDispose]());
const root = (route: string, params?: Record<string, unknown>): Promise<unknown> =>
  fix.call("root@pam", route, params);

describe("groups", () => {
  test("are made, described and deleted, and their members lose them", async () => {
    expect(await root("POST /access/groups", { groupid: "devs", comment: "Developers" })).toBeNull();
    await root("POST /access/users", { userid: "joe@pve", groups: "devs" });
    expect(await root("GET /access/groups")).toEqual([
      { groupid: "devs", comment: "Developers", users: "joe@pve" },
    ]);
    await root("PUT /access/groups/{groupid}", { groupid: "devs", comment: "" });
    await root("PUT /access/groups/{groupid}", { groupid: "devs" });
    expect(await root("GET /access/groups/{groupid}", { groupid: "devs" })).toEqual({ members: ["joe@pve"] });
    await root("PUT /access/acl", { path: "/", roles: "PVEAdmin", groups: "devs" });
    expect(await root("DELETE /access/groups/{groupid}", { groupid: "devs" })).toBeNull();
    expect(await root("GET /access/acl")).toEqual([]);
    expect(await root("GET /access/users/{userid}", { userid: "joe@pve" })).toMatchObject({ groups: [] });
  });

  test("mistakes get PVE's texts", async () => {
    await root("POST /access/groups", { groupid: "devs" });
    expect(await root("POST /access/groups", { groupid: "devs" })).toBe(
      "500 create group failed: group 'devs' already exists",
    );
    for (const [verb, prefix] of [
      ["PUT", "update group failed: "],
      ["DELETE", "delete group failed: "],
      ["GET", ""],
    ]) {
      expect(await root(`${verb} /access/groups/{groupid}`, { groupid: "x" })).toBe(
        `500 ${prefix}group 'x' does not exist`,
      );
    }
  });

  test("are seen by those who may", async () => {
    await root("POST /access/groups", { groupid: "devs" });
    await root("POST /access/users", { userid: "joe@pve" });
    expect(await fix.call("joe@pve", "GET /access/groups")).toEqual([]);
  });
});

describe("roles", () => {
  test("custom ones are made, changed and deleted", async () => {
    expect(await root("POST /access/roles", { roleid: "look", privs: "VM.Audit" })).toBeNull();
    await root("PUT /access/roles/{roleid}", { roleid: "look", privs: "Sys.Audit", append: 1 });
    expect(await root("GET /access/roles/{roleid}", { roleid: "look" })).toEqual({
      "Sys.Audit": 1,
      "VM.Audit": 1,
    });
    await root("PUT /access/roles/{roleid}", { roleid: "look", privs: "Sys.Audit" });
    expect(await root("GET /access/roles/{roleid}", { roleid: "look" })).toEqual({ "Sys.Audit": 1 });
    const rows = (await root("GET /access/roles")) as { roleid: string }[];
    expect(rows).toHaveLength(23);
    expect(rows.find((row) => row.roleid === "look")).toEqual({
      roleid: "look",
      privs: "Sys.Audit",
      special: 0,
    });
    expect(rows.find((row) => row.roleid === "NoAccess")).toEqual({
      roleid: "NoAccess",
      privs: "",
      special: 1,
    });
    await root("PUT /access/acl", { path: "/", roles: "look", users: "root@pam" });
    expect(await root("DELETE /access/roles/{roleid}", { roleid: "look" })).toBeNull();
    expect(await root("GET /access/acl")).toEqual([]);
  });

  test("built-in ones cannot be touched, and mistakes get PVE's texts", async () => {
    expect(await root("PUT /access/roles/{roleid}", { roleid: "PVEAdmin", privs: "VM.Audit" })).toBe(
      "500 auto-generated role 'PVEAdmin' cannot be modified",
    );
    expect(await root("DELETE /access/roles/{roleid}", { roleid: "Administrator" })).toBe(
      "500 auto-generated role 'Administrator' cannot be deleted",
    );
    expect(await root("POST /access/roles", { roleid: "pveMine" })).toBe(
      `400 Parameter verification failed.\n {"roleid":"cannot use role ID starting with the (case-insensitive) 'PVE' namespace"}`,
    );
    expect(await root("POST /access/roles", { roleid: "NoAccess" })).toBe(
      "500 create role failed: role 'NoAccess' already exists",
    );
    expect(await root("PUT /access/roles/{roleid}", { roleid: "x" })).toBe(
      "500 update role failed: role 'x' does not exist",
    );
    expect(await root("DELETE /access/roles/{roleid}", { roleid: "x" })).toBe(
      "500 delete role failed: role 'x' does not exist",
    );
    expect(await root("GET /access/roles/{roleid}", { roleid: "x" })).toBe("500 role 'x' does not exist");
    await expect(fix.access.roles.create("own", "VM.Fly")).rejects.toThrow(
      "create role failed: invalid privilege 'VM.Fly'",
    );
  });
});

describe("the access control list", () => {
  beforeEach(async () => {
    await root("POST /access/groups", { groupid: "devs" });
    await root("POST /access/users", { userid: "joe@pve", groups: "devs" });
    await root("POST /access/users", { userid: "ann@pve" });
    await root("POST /access/users/{userid}/token/{tokenid}", { userid: "joe@pve", tokenid: "ci" });
  });

  test("entries are set, replaced and taken away", async () => {
    await root("PUT /access/acl", {
      path: "/vms/100/",
      roles: "PVEVMUser,PVEAuditor",
      users: "joe@pve",
      groups: "devs",
      tokens: "joe@pve!ci",
      propagate: 0,
    });
    const rows = (await root("GET /access/acl")) as { type: string }[];
    expect(rows).toHaveLength(6);
    expect(rows[0]).toEqual({
      path: "/vms/100",
      type: "user",
      ugid: "joe@pve",
      roleid: expect.any(String),
      propagate: 0,
    });
    expect(rows.map((row) => row.type)).toEqual(["user", "user", "group", "group", "token", "token"]);
    await root("PUT /access/acl", {
      path: "/vms/100",
      roles: "PVEVMUser,PVEAuditor",
      users: "joe@pve",
      delete: 1,
    });
    await root("PUT /access/acl", { path: "/vms/100", roles: "PVEAuditor", groups: "devs", delete: 1 });
    await root("PUT /access/acl", { path: "/vms/100", roles: "PVEAuditor", tokens: "joe@pve!ci", delete: 1 });
    await root("PUT /access/acl", { path: "/vms/100", roles: "PVEVMUser", groups: "devs", propagate: 1 });
    expect(await root("GET /access/acl")).toEqual([
      { path: "/vms/100", type: "group", ugid: "devs", roleid: "PVEVMUser", propagate: 1 },
      { path: "/vms/100", type: "token", ugid: "joe@pve!ci", roleid: "PVEVMUser", propagate: 0 },
    ]);
  });

  test("mistakes get PVE's texts", async () => {
    const acl = (params: Record<string, unknown>): Promise<unknown> =>
      root("PUT /access/acl", { path: "/vms", roles: "PVEAuditor", ...params });
    const need = "either 'users', 'groups' or 'tokens' is required.";
    expect(await acl({})).toBe(
      `400 Parameter verification failed.\n ${JSON.stringify({ users: need, groups: need, tokens: need })}`,
    );
    expect(await acl({ path: "/nowhere", users: "joe@pve" })).toBe(
      `400 Parameter verification failed.\n {"path":"invalid ACL path '/nowhere'"}`,
    );
    expect(await acl({ path: "a b", users: "joe@pve" })).toBe(
      `400 Parameter verification failed.\n {"path":"invalid ACL path 'a b'"}`,
    );
    expect(await acl({ path: "/nowhere", users: "joe@pve", delete: 1 })).toBeNull();
    expect(await acl({ roles: "none", users: "joe@pve" })).toBe(
      "500 ACL update failed: role 'none' does not exist",
    );
    expect(await acl({ users: "no@pve" })).toBe("500 ACL update failed: user 'no@pve' does not exist");
    expect(await acl({ groups: "none" })).toBe("500 ACL update failed: group 'none' does not exist");
    expect(await acl({ tokens: "joe@pve!xx" })).toBe(
      "500 ACL update failed: no such token 'xx' for user 'joe@pve'",
    );
  });

  test("who may allocate a guest shares it, but never more than he has", async () => {
    await root("PUT /access/acl", { path: "/vms/100", roles: "PVEVMAdmin", users: "joe@pve", propagate: 0 });
    const share = (params: Record<string, unknown>): Promise<unknown> =>
      fix.call("joe@pve", "PUT /access/acl", { path: "/vms/100", users: "ann@pve", propagate: 0, ...params });
    expect(await share({ roles: "PVEVMUser" })).toBeNull();
    expect(await share({ roles: "PVEVMUser", propagate: 1 })).toContain(
      "500 ACL update failed: 400 Parameter verification failed.\nrole: Cannot add role 'PVEVMUser' with propagation",
    );
    expect(await share({ roles: "Administrator" })).toContain(
      "requires 'Permissions.Modify' or superset of privileges.",
    );
    expect(await share({ roles: "NoAccess", delete: 1 })).toContain(
      "Cannot remove role 'NoAccess' - requires 'Permissions.Modify'",
    );
    expect(await share({ roles: "PVEVMUser", path: "/vms/200" })).toBe(
      "403 Permission check failed (/vms/200, Permissions.Modify|VM.Allocate)",
    );
  });

  test("one sees the entries one may change", async () => {
    await root("PUT /access/acl", { path: "/vms/100", roles: "PVEVMAdmin", users: "joe@pve" });
    await root("PUT /access/acl", { path: "/nodes", roles: "PVEAuditor", users: "ann@pve" });
    const paths = async (who: string): Promise<string[]> =>
      ((await fix.call(who, "GET /access/acl")) as { path: string }[]).map((row) => row.path);
    expect(await paths("joe@pve")).toEqual(["/vms/100"]);
    expect(await paths("root@pam")).toEqual(["/nodes", "/vms/100"]);
  });
});

describe("realms", () => {
  test("pam and pve are there before anything is set", async () => {
    expect(await fix.call(undefined, "GET /access/domains")).toEqual([
      { realm: "pam", type: "pam", comment: "Linux PAM standard authentication" },
      { realm: "pve", type: "pve", comment: "Proxmox VE authentication server" },
    ]);
    expect(await root("GET /access/domains/{realm}", { realm: "pam" })).toEqual({
      type: "pam",
      comment: "Linux PAM standard authentication",
      digest: expect.stringMatching(/^[0-9a-f]{40}$/),
    });
  });

  test("comment, default and second factor can be set; one default at a time", async () => {
    await root("PUT /access/domains/{realm}", { realm: "pve", default: 1, comment: "Ours" });
    await root("PUT /access/domains/{realm}", { realm: "pam", default: 1, tfa: "type=oath" });
    expect(await fix.call(undefined, "GET /access/domains")).toEqual([
      { realm: "pam", type: "pam", comment: "Linux PAM standard authentication", default: 1, tfa: "oath" },
      { realm: "pve", type: "pve", comment: "Ours" },
    ]);
    expect(await root("GET /access/users/{userid}/tfa", { userid: "root@pam" })).toEqual({ realm: "oath" });
    await root("PUT /access/domains/{realm}", { realm: "pam", delete: "tfa,default,comment" });
    expect(await root("GET /access/domains/{realm}", { realm: "pam" })).toEqual({
      type: "pam",
      digest: expect.any(String),
    });
    await root("DELETE /access/domains/{realm}", { realm: "pam" });
    expect(await root("GET /access/domains/{realm}", { realm: "pam" })).toMatchObject({
      comment: "Linux PAM standard authentication",
    });
  });

  test("an old digest is refused", async () => {
    const { digest } = (await root("GET /access/domains/{realm}", { realm: "pve" })) as { digest: string };
    expect(await root("PUT /access/domains/{realm}", { realm: "pve", comment: "a", digest })).toBeNull();
    expect(await root("PUT /access/domains/{realm}", { realm: "pve", comment: "b", digest })).toBe(
      "500 update auth server failed: detected modified configuration - file changed by other user? Try again.",
    );
  });

  test("other kinds of realms say that they are not supported", async () => {
    expect(await root("POST /access/domains", { realm: "corp", type: "ldap" })).toBe(
      "501 realms of type 'ldap' are not supported; use 'pam' or 'pve'",
    );
    expect(await root("POST /access/domains", { realm: "pam", type: "pam" })).toBe(
      "500 add auth server failed: domain 'pam' already exists",
    );
    expect(await root("POST /access/domains", { realm: "pam2", type: "pam" })).toBe(
      "500 add auth server failed: unable to create builtin type 'pam'",
    );
    expect(await root("PUT /access/domains/{realm}", { realm: "pve" })).toBe(
      "500 update auth server failed: no options specified",
    );
    expect(await root("PUT /access/domains/{realm}", { realm: "pve", base_dn: "x" })).toContain(
      "500 update auth server failed: 400 Parameter verification failed.",
    );
    expect(await root("PUT /access/domains/{realm}", { realm: "xx", comment: "y" })).toBe(
      "500 update auth server failed: domain 'xx' does not exist",
    );
    expect(await root("GET /access/domains/{realm}", { realm: "xx" })).toBe("500 domain 'xx' does not exist");
    expect(await root("DELETE /access/domains/{realm}", { realm: "xx" })).toBe(
      "500 delete auth server failed: authentication domain 'xx' does not exist",
    );
    expect(await root("POST /access/domains/{realm}/sync", { realm: "pve" })).toBe(
      "500 Cannot sync realm type 'pve'! Only LDAP/AD realms can be synced.",
    );
    expect(await root("POST /access/domains/{realm}/sync", { realm: "xx" })).toBe(
      '400 Parameter verification failed.\n {"realm":"Realm does not exist."}',
    );
  });
});
