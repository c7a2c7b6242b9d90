import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AccessFixture } from "../../testing/access-fixture.ts";
import { openAccessFixture } from "../../testing/access-fixture.ts";
import { aclDef, tokensDef } from "@gpve/domain/access/collections.ts";
import { passwordsDef, tokenSecretsDef } from "./secret-collections.ts";

let fix: AccessFixture;
beforeEach(async () => {
  fix = await openAccessFixture();
});
afterEach(() => fix[Symbol.asyncDispose]());
const root = (route: string, params?: Record<string, unknown>): Promise<unknown> =>
  fix.call("root@pam", route, params);

describe("users", () => {
  test("are created, shown, changed and deleted", async () => {
    await root("POST /access/groups", { groupid: "devs" });
    expect(
      await root("POST /access/users", {
        userid: "joe@pve",
        password: "secret-joe",
        groups: "devs",
        comment: "Joe",
        email: "joe@example.org",
      }),
    ).toBeNull();
    expect(await root("GET /access/users/{userid}", { userid: "joe@pve" })).toEqual({
      enable: 1,
      expire: 0,
      comment: "Joe",
      email: "joe@example.org",
      groups: ["devs"],
      tokens: {},
    });
    expect(
      await root("PUT /access/users/{userid}", {
        userid: "joe@pve",
        comment: "",
        enable: 0,
        expire: 99,
        lastname: "D",
      }),
    ).toBeNull();
    expect(await root("GET /access/users/{userid}", { userid: "joe@pve" })).toEqual({
      enable: 0,
      expire: 99,
      email: "joe@example.org",
      lastname: "D",
      groups: ["devs"],
      tokens: {},
    });
    expect(await root("DELETE /access/users/{userid}", { userid: "joe@pve" })).toBeNull();
    expect(await root("GET /access/users/{userid}", { userid: "joe@pve" })).toBe(
      "500 no such user ('joe@pve')",
    );
    expect(await root("GET /access/groups/{groupid}", { groupid: "devs" })).toEqual({ members: [] });
  });

  test("groups are replaced or appended to", async () => {
    for (const groupid of ["a", "b"]) await root("POST /access/groups", { groupid });
    await root("POST /access/users", { userid: "joe@pve", groups: "a" });
    const groups = async (): Promise<unknown> =>
      ((await root("GET /access/users/{userid}", { userid: "joe@pve" })) as { groups: unknown }).groups;
    await root("PUT /access/users/{userid}", { userid: "joe@pve", groups: "b", append: 1 });
    expect(await groups()).toEqual(["a", "b"]);
    await root("PUT /access/users/{userid}", { userid: "joe@pve", groups: "b" });
    expect(await groups()).toEqual(["b"]);
    await root("PUT /access/users/{userid}", { userid: "joe@pve", groups: "" });
    expect(await groups()).toEqual([]);
  });

  test("mistakes get PVE's texts", async () => {
    await root("POST /access/users", { userid: "joe@pve" });
    expect(await root("POST /access/users", { userid: "joe@pve" })).toBe(
      "500 create user failed: user 'joe@pve' already exists",
    );
    expect(await root("POST /access/users", { userid: "ann@pve", groups: "none" })).toBe(
      "500 create user failed: no such group 'none'",
    );
    expect(await root("POST /access/users", { userid: "ann@ldap", password: "12345678" })).toBe(
      "500 create user failed: auth domain 'ldap' does not exist",
    );
    expect(await root("PUT /access/users/{userid}", { userid: "no@pve", comment: "x" })).toBe(
      "500 update user failed: no such user ('no@pve')",
    );
    expect(await root("PUT /access/users/{userid}", { userid: "joe@pve", groups: "none" })).toBe(
      "500 update user failed: no such group 'none'",
    );
    expect(await root("DELETE /access/users/{userid}", { userid: "no@pve" })).toBeNull();
    expect(await root("POST /access/users", { userid: "joe" })).toContain(
      "400 Parameter verification failed.",
    );
  });

  test("deleting a user takes tokens, permissions and secrets with it", async () => {
    await root("POST /access/users", { userid: "joe@pve", password: "secret-joe" });
    await root("POST /access/users/{userid}/token/{tokenid}", { userid: "joe@pve", tokenid: "ci" });
    await root("PUT /access/acl", {
      path: "/vms",
      roles: "PVEAuditor",
      users: "joe@pve",
      tokens: "joe@pve!ci",
    });
    await root("DELETE /access/users/{userid}", { userid: "joe@pve" });
    expect(fix.records.collection(aclDef).list()).toEqual([]);
    expect(fix.records.collection(tokensDef).list()).toEqual([]);
    expect(fix.records.collection(tokenSecretsDef).list()).toEqual([]);
    expect(
      fix.records
        .collection(passwordsDef)
        .list()
        .map((entry) => entry.id),
    ).toEqual(["root@pam"]);
  });

  test("root@pam cannot be lost", async () => {
    await root("PUT /access/users/{userid}", { userid: "root@pam", comment: "the boss" });
    expect(await root("DELETE /access/users/{userid}", { userid: "root@pam" })).toBeNull();
    expect(await root("GET /access/users/{userid}", { userid: "root@pam" })).toEqual({
      enable: 1,
      expire: 0,
      groups: [],
      tokens: {},
    });
    await root("PUT /access/users/{userid}", { userid: "root@pam", email: "r@example.org" });
    expect(await root("GET /access/users/{userid}", { userid: "root@pam" })).toMatchObject({
      email: "r@example.org",
    });
  });

  test("the list shows what one may see, and always oneself", async () => {
    for (const groupid of ["g1", "g2"]) await root("POST /access/groups", { groupid });
    await root("POST /access/users", { userid: "joe@pve" });
    await root("POST /access/users", { userid: "ann@pve", groups: "g1", enable: 0 });
    await root("POST /access/users", { userid: "bob@pve", groups: "g2" });
    await root("PUT /access/acl", { path: "/access/groups/g1", roles: "PVEUserAdmin", users: "joe@pve" });
    const ids = async (who: string, params = {}): Promise<string[]> =>
      ((await fix.call(who, "GET /access/users", params)) as { userid: string }[]).map((user) => user.userid);
    expect(await ids("joe@pve")).toEqual(["ann@pve", "joe@pve"]);
    expect(await ids("root@pam")).toEqual(["ann@pve", "bob@pve", "joe@pve", "root@pam"]);
    expect(await ids("root@pam", { enabled: 0 })).toEqual(["ann@pve"]);
    expect(await ids("root@pam", { enabled: 1 })).toEqual(["bob@pve", "joe@pve", "root@pam"]);
  });

  test("the full list has groups as text and tokens as rows", async () => {
    for (const groupid of ["g1", "g2"]) await root("POST /access/groups", { groupid });
    await root("POST /access/users", { userid: "joe@pve", groups: "g2,g1" });
    await root("POST /access/users/{userid}/token/{tokenid}", {
      userid: "joe@pve",
      tokenid: "ci",
      comment: "c",
    });
    const rows = (await root("GET /access/users", { full: 1 })) as unknown[];
    expect(rows[0]).toEqual({
      userid: "joe@pve",
      enable: 1,
      expire: 0,
      "realm-type": "pve",
      groups: "g1,g2",
      tokens: [{ tokenid: "ci", privsep: 1, expire: 0, comment: "c" }],
    });
    expect(rows[1]).toMatchObject({ userid: "root@pam", "realm-type": "pam", groups: "", tokens: [] });
  });

  test("nobody changes users without the right", async () => {
    await root("POST /access/users", { userid: "joe@pve" });
    expect(await fix.call("joe@pve", "POST /access/users", { userid: "x@pve" })).toBe(
      "403 Permission check failed (/access/realm/pve, Realm.AllocateUser)",
    );
    expect(await fix.call("joe@pve", "DELETE /access/users/{userid}", { userid: "root@pam" })).toBe(
      "403 Permission check failed (/access/realm/pam, Realm.AllocateUser)",
    );
  });

  test("a password for a host account goes to the host", async () => {
    fix.hostPasswords.set("dan", "old");
    await root("POST /access/users", { userid: "dan@pam", password: "newpassword" });
    expect(fix.hostPasswords.get("dan")).toBe("newpassword");
    expect(fix.records.collection(passwordsDef).get("dan@pam")).toBeUndefined();
  });
});

describe("second factors", () => {
  test("are truthfully absent", async () => {
    expect(await root("GET /access/tfa")).toEqual([]);
    expect(await root("GET /access/tfa/{userid}", { userid: "root@pam" })).toEqual([]);
    expect(await root("GET /access/tfa/{userid}/{id}", { userid: "root@pam", id: "x" })).toBe(
      "404 No such tfa entry 'x'",
    );
    expect(await root("GET /access/users/{userid}/tfa", { userid: "root@pam" })).toEqual({});
    expect(await root("GET /access/users/{userid}/tfa", { userid: "root@pam", multiple: 1 })).toEqual({
      types: [],
    });
    expect(await root("PUT /access/users/{userid}/unlock-tfa", { userid: "root@pam" })).toBe(0);
    expect(await root("GET /access/tfa/{userid}", { userid: "no@pve" })).toBe("500 no such user ('no@pve')");
  });
});
