// What an administrator of a tenant does inside it, and every way out of it that was thought of, on both faces.
import { given } from "@gpve/contracts/given.ts";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { aclDef, aclId, groupsDef, poolsDef, tokensDef, usersDef } from "@gpve/domain/access/collections.ts";
import type { AclEntry } from "@gpve/domain/access/types.ts";
import type { CollectionDef } from "@gpve/store/records/port.ts";
import { quotasDef } from "../application/quota/quota-records.ts";
import { openTwoFaces, type Answer, type TwoFaces } from "../testing/two-faces.ts";

const ADMIN = "admin@pve";
let faces: TwoFaces;
beforeAll(async () => {
  faces = await openTwoFaces();
});
afterAll(() => faces.close());

beforeEach(async () => {
  await faces.records.transact((tx) => {
    for (const def of [usersDef, aclDef, groupsDef, tokensDef] as CollectionDef<unknown>[])
      for (const { id } of tx.list(def)) tx.delete(def, id);
    for (const { id } of tx.list(quotasDef)) tx.delete(quotasDef, id);
    for (const { id } of tx.list(poolsDef)) tx.delete(poolsDef, id);
    const pool = (poolid: string, vms: number[], storage: string[] = []) =>
      tx.put(poolsDef, poolid, { poolid, vms, storage });
    pool("web", [100], ["local"]);
    pool("web/dev", []);
    pool("shop", [102]);
    for (const groupid of ["ops", "web-team"]) tx.put(groupsDef, groupid, { groupid });
    const user = (userid: string, tenant?: string, groups: string[] = []) =>
      tx.put(usersDef, userid, {
        userid,
        enable: true,
        expire: 0,
        groups,
        ...given({ tenant }),
      });
    user(ADMIN, "web");
    user("joe@pve", "web");
    user("boss@pve", "web");
    user("sue@pve", "shop");
    user("chief@pve");
    user("idle@pve");
    user("member@pve", undefined, ["ops"]);
    user("pam1@pam");
    tx.put(tokensDef, `${ADMIN}!ci`, { userid: ADMIN, tokenid: "ci", privsep: true, expire: 0 });
    const grant = (path: string, roleid: string, ugid: string, type: AclEntry["type"] = "user") => {
      const entry = { path, type, ugid, roleid, propagate: true };
      tx.put(aclDef, aclId(entry), entry);
    };
    grant("/pool/web", "tenant-admin", ADMIN);
    grant("/pool/web", "vm-operator", "joe@pve");
    grant("/", "PVEAuditor", "boss@pve");
    grant("/pool/shop", "tenant-admin", "sue@pve");
    grant("/", "Administrator", "chief@pve");
    grant("/", "Administrator", "ops", "group");
    grant("/pool/web", "viewer", `${ADMIN}!ci`, "token");
  });
});

const api2 = (method: string, path: string, body?: object, as = ADMIN): Promise<Answer> =>
  faces.ask(as, method, `/api2/json${path}`, body);
const v1 = (method: string, path: string, body?: object, as = ADMIN): Promise<Answer> =>
  faces.ask(as, method, `/api/v1${path}`, body);
const object = (kind: string, name: string, spec: object, namespace?: string) => ({
  apiVersion: "gpve.io/v1",
  kind,
  metadata: { name, ...given({ namespace }) },
  spec,
});
const binding = (path: string, role: string, subject: { kind: string; name: string; propagate?: boolean }) =>
  object("Binding", `${role}@${path}`, { path, role, subjects: [subject] });
const userRecord = (userid: string) => faces.records.collection(usersDef).get(userid)?.value;
const aclOf = (ugid: string): string[] =>
  faces.records
    .collection(aclDef)
    .list()
    .filter(({ value }) => value.ugid === ugid)
    .map(({ value }) => `${value.roleid}@${value.path}`)
    .toSorted();
const items = (answer: Answer): string[] =>
  (JSON.parse(answer.text) as { items: { metadata: { name: string } }[] }).items.map(
    ({ metadata }) => metadata.name,
  );

describe("an administrator of a tenant", () => {
  test("makes users, sets them up, and deletes them, and sees those of his tenant alone", async () => {
    const made = await api2("POST", "/access/users", { userid: "new@pve", password: "geheim12" });
    expect(made).toMatchObject({ status: 200 });
    expect(userRecord("new@pve")).toMatchObject({ tenant: "web" });
    expect((await v1("POST", "/tenants/web/users", object("User", "two@pve", {}))).status).toBe(201);
    expect((await v1("POST", "/users", object("User", "three@pve", {}, "web/dev"))).status).toBe(201);
    expect(userRecord("two@pve")?.tenant).toBe("web");
    expect(items(await v1("GET", "/users"))).toEqual(
      [ADMIN, "joe@pve", "new@pve", "three@pve", "two@pve", "boss@pve"].toSorted(),
    );
    const rows = JSON.parse((await api2("GET", "/access/users")).text) as { data: { userid: string }[] };
    expect(rows.data.map(({ userid }) => userid).toSorted()).toEqual(items(await v1("GET", "/users")));
    expect((await api2("PUT", "/access/users/new@pve", { comment: "x" })).status).toBe(200);
    expect((await v1("PATCH", "/users/two@pve", { spec: { enable: false } })).status).toBe(200);
    expect((await api2("DELETE", "/access/users/new@pve")).status).toBe(200);
    expect((await v1("DELETE", "/users/two@pve")).status).toBe(200);
  });

  test("makes tokens for them and gives both roles inside the tenant", async () => {
    const token = await api2("POST", "/access/users/joe@pve/token/ci", { privsep: 1 });
    expect(token.status).toBe(200);
    const roles = { path: "/pool/web", roles: "vm-operator,viewer", tokens: "joe@pve!ci" };
    expect((await api2("PUT", "/access/acl", roles)).status).toBe(200);
    const user = { kind: "User", name: "joe@pve" };
    expect((await v1("POST", "/bindings", binding("/pool/web/dev", "tenant-admin", user))).status).toBe(201);
    expect(
      (await v1("POST", "/bindings", binding("/vms/100", "PVEVMUser", { ...user, propagate: false }))).status,
    ).toBe(201);
    expect(items(await v1("GET", "/bindings"))).toEqual([
      "PVEVMUser@/vms/100",
      "tenant-admin@/pool/web",
      "tenant-admin@/pool/web/dev",
      "viewer@/pool/web",
      "vm-operator@/pool/web",
    ]);
    expect((await api2("DELETE", "/access/users/joe@pve/token/ci")).status).toBe(200);
  });

  test("makes tenants below his own and bounds them, not himself", async () => {
    expect((await v1("POST", "/tenants", object("Tenant", "web/test", {}))).status).toBe(201);
    const quota = { limits: { vmCount: 1 } };
    expect(
      (await v1("POST", "/resourcequotas", object("ResourceQuota", "t", quota, "web/test"))).status,
    ).toBe(201);
    expect((await v1("POST", "/resourcequotas", object("ResourceQuota", "w", quota, "web"))).status).toBe(
      403,
    );
  });

  test("a tenant with users does not go", async () => {
    await v1("POST", "/users", object("User", "three@pve", {}, "web/dev"));
    expect((await api2("DELETE", "/pools?poolid=web/dev")).text).toContain("contains user 'three@pve'");
    expect((await v1("DELETE", "/tenants/web%2Fdev")).status).toBe(409);
  });
});

describe("ways out of a tenant", () => {
  /** What must be as it was, whatever was tried. */
  const untouched = () => ({
    users: ["chief@pve", "idle@pve", "sue@pve", "boss@pve", "pam1@pam"].map(userRecord),
    acl: [ADMIN, "joe@pve", "sue@pve", "chief@pve", "ops", `${ADMIN}!ci`].map(aclOf),
    pools: faces.records
      .collection(poolsDef)
      .list()
      .map(({ value }) => value),
    tokens: faces.records
      .collection(tokensDef)
      .list()
      .map(({ id }) => id),
  });
  const self = { kind: "User", name: ADMIN };

  test.each<[string, () => Promise<Answer>]>([
    [
      "giving himself a role on /",
      () => api2("PUT", "/access/acl", { path: "/", roles: "Administrator", users: ADMIN }),
    ],
    ["the same under /api/v1", () => v1("POST", "/bindings", binding("/", "viewer", self))],
    ["a role of his on another tenant", () => v1("POST", "/bindings", binding("/pool/shop", "viewer", self))],
    [
      "on a guest of another tenant",
      () => api2("PUT", "/access/acl", { path: "/vms/102", roles: "viewer", users: ADMIN }),
    ],
    [
      "on a storage that others share",
      () => api2("PUT", "/access/acl", { path: "/storage/local", roles: "PVEDatastoreUser", users: ADMIN }),
    ],
    ["on all pools", () => v1("POST", "/bindings", binding("/pool", "tenant-admin", self))],
    [
      "more than he has, inside",
      () => api2("PUT", "/access/acl", { path: "/pool/web", roles: "Administrator", users: ADMIN }),
    ],
    [
      "more than he has, to another",
      () => v1("POST", "/bindings", binding("/pool/web", "PVEAdmin", { kind: "User", name: "joe@pve" })),
    ],
    [
      "more than he has, to a token",
      () => api2("PUT", "/access/acl", { path: "/pool/web", roles: "cluster-admin", tokens: `${ADMIN}!ci` }),
    ],
    [
      "more than he has, to a group",
      () => api2("PUT", "/access/acl", { path: "/pool/web", roles: "Administrator", groups: "web-team" }),
    ],
    [
      "shutting everybody out",
      () => api2("PUT", "/access/acl", { path: "/pool/web", roles: "NoAccess", users: "chief@pve" }),
    ],
    [
      "putting a small role in place of a great one",
      () => api2("PUT", "/access/acl", { path: "/pool/web", roles: "viewer", users: "chief@pve" }),
    ],
    [
      "the same to a group under /api/v1",
      () => v1("POST", "/bindings", binding("/pool/web", "vc-operator", { kind: "Group", name: "ops" })),
    ],
    [
      "a role of his own making",
      () => v1("POST", "/roles", object("Role", "mine", { privileges: ["Sys.Modify"] })),
    ],
    [
      "a password of a user who may do more",
      () =>
        api2("PUT", "/access/password", {
          userid: "boss@pve",
          password: "geheim12",
          "confirmation-password": "x",
        }),
    ],
    [
      "a token of a user who may do more",
      () => api2("POST", "/access/users/boss@pve/token/tt", { privsep: 0 }),
    ],
    ["changing a user who may do more", () => v1("PATCH", "/users/boss@pve", { spec: { comment: "x" } })],
    ["deleting a user who may do more", () => v1("DELETE", "/users/boss@pve")],
    ["a token of a user of another tenant", () => api2("POST", "/access/users/sue@pve/token/tt", {})],
    ["a token of an administrator", () => api2("POST", "/access/users/chief@pve/token/tt", {})],
    [
      "taking a user of nobody into his tenant",
      () => v1("PUT", "/users/chief@pve", object("User", "chief@pve", {}, "web")),
    ],
    [
      "taking a user without roles into his tenant",
      () => v1("PUT", "/users/idle@pve", object("User", "idle@pve", {}, "web")),
    ],
    [
      "taking a user of another tenant",
      () => v1("PATCH", "/users/sue@pve", { metadata: { namespace: "web" } }),
    ],
    ["making a user of another tenant", () => v1("POST", "/users", object("User", "spy@pve", {}, "shop"))],
    ["making a user of no tenant", () => v1("POST", "/users", object("User", "spy@pve", {}))],
    [
      "a new user in a group of others",
      () => api2("POST", "/access/users", { userid: "spy@pve", groups: "ops" }),
    ],
    [
      "a user of his in a group of others",
      () => api2("PUT", "/access/users/joe@pve", { groups: "ops", append: 1 }),
    ],
    ["himself in a group of others", () => v1("PATCH", `/users/${ADMIN}`, { spec: { groups: ["ops"] } })],
    [
      "a new user in a group of others, under /api/v1",
      () => v1("POST", "/users", object("User", "spy@pve", { groups: ["ops"] }, "web")),
    ],
    ["a group", () => api2("POST", "/access/groups", { groupid: "mine" })],
    [
      "a user of the host",
      () => api2("POST", "/access/users", { userid: "daemon@pam", password: "geheim12" }),
    ],
    ["a user of the host under /api/v1", () => v1("POST", "/users", object("User", "daemon@pam", {}, "web"))],
    ["a realm", () => api2("PUT", "/access/domains/pve", { default: 1 })],
    ["a realm of his own", () => api2("POST", "/access/domains", { realm: "mine", type: "ldap" })],
    [
      "a guest of others in his pool",
      () => api2("PUT", "/pools", { poolid: "web", vms: "102", "allow-move": 1 }),
    ],
    ["a storage of others in his pool", () => api2("PUT", "/pools", { poolid: "web/dev", storage: "local" })],
    ["a pool beside his", () => api2("POST", "/pools", { poolid: "web2" })],
    ["a pool below another", () => v1("POST", "/tenants", object("Tenant", "shop/mine", {}))],
  ])("%s: no", async (_what, attempt) => {
    const before = untouched();
    const answer = await attempt();
    // PVE answers some refusals with 500 and the reason.
    expect(answer.status, answer.text).toBeGreaterThanOrEqual(400);
    expect(answer.text).toMatch(/Permission check failed|Cannot add role/);
    expect(untouched()).toEqual(before);
  });

  test("applying is no way either", async () => {
    const objects = [object("User", "idle@pve", {}, "web"), object("User", "sue@pve", {}, "web")];
    const { text } = await v1("POST", "/plan", { objects });
    expect(JSON.parse(text)).toMatchObject({ items: [{ action: "refused" }, { action: "refused" }] });
  });

  test("a token with less than its owner does not become its owner", async () => {
    await faces.records.transact((tx) => {
      const entry = {
        path: "/pool/web",
        type: "token" as const,
        ugid: `${ADMIN}!ci`,
        roleid: "tenant-admin",
        propagate: true,
      };
      tx.put(aclDef, aclId(entry), entry);
      const wide = {
        path: "/vms/102",
        type: "user" as const,
        ugid: ADMIN,
        roleid: "PVEVMAdmin",
        propagate: true,
      };
      tx.put(aclDef, aclId(wide), wide);
    });
    const as = `${ADMIN}!ci`;
    const grown = await api2("POST", `/access/users/${ADMIN}/token/all`, { privsep: 0 }, as);
    expect(grown).toMatchObject({ status: 403, text: expect.stringContaining("/vms/102") });
    expect((await api2("POST", "/access/users/joe@pve/token/ok", { privsep: 0 }, as)).status).toBe(200);
  });

  test("who manages users and no more gets no hold of the tenant's administrator", async () => {
    await faces.addSubject({ authid: "hr@pve", grants: [] });
    await v1("POST", "/roles", object("Role", "hr", { privileges: ["Tenant.Users"] }), "root@pam");
    await api2("PUT", "/access/acl", { path: "/pool/web", roles: "hr", users: "hr@pve" }, "root@pam");
    expect((await api2("POST", `/access/users/${ADMIN}/token/tt`, {}, "hr@pve")).status).toBe(403);
    expect((await api2("POST", "/access/users", { userid: "n@pve" }, "hr@pve")).status).toBe(200);
    expect((await api2("POST", "/access/users/n@pve/token/tt", {}, "hr@pve")).status).toBe(200);
    expect(
      (await api2("PUT", "/access/acl", { path: "/pool/web", roles: "viewer", users: "n@pve" }, "hr@pve"))
        .status,
    ).toBe(403);
    expect((await v1("GET", "/bindings/viewer@%2Fpool%2Fweb", undefined, "hr@pve")).status).toBe(403);
  });

  test("whoever administers two tenants says which one a user is of", async () => {
    await api2("PUT", "/access/acl", { path: "/pool/shop", roles: "tenant-admin", users: ADMIN }, "root@pam");
    const unclear = await api2("POST", "/access/users", { userid: "n@pve" });
    expect(unclear).toMatchObject({ status: 403, text: expect.stringContaining("metadata.namespace") });
    expect((await v1("POST", "/users", object("User", "n@pve", {}, "shop"))).status).toBe(201);
  });

  test("guests do not get out of a quota by leaving the pool", async () => {
    const leave = () => api2("PUT", "/pools", { poolid: "web", vms: "100", delete: 1 });
    await v1(
      "POST",
      "/resourcequotas",
      object("ResourceQuota", "w", { limits: { vmCount: 5 } }, "web"),
      "root@pam",
    );
    expect(await leave()).toMatchObject({ status: 500, text: expect.stringContaining("quota 'w'") });
    const down = { poolid: "web/dev", vms: "100", "allow-move": 1 };
    expect((await api2("PUT", "/pools", down)).status).toBe(200);
    expect((await api2("PUT", "/pools", { ...down, poolid: "web" })).status).toBe(200);
    await v1("DELETE", "/resourcequotas/w", undefined, "root@pam");
    expect((await leave()).status).toBe(200);
  });

  test("a viewer of a tenant sees its users and changes none", async () => {
    await faces.addSubject({
      authid: "eye@pve",
      grants: [{ path: "/pool/web", role: "viewer", propagate: true }],
    });
    expect(items(await v1("GET", "/users", undefined, "eye@pve"))).toEqual([
      ADMIN,
      "boss@pve",
      "eye@pve",
      "joe@pve",
    ]);
    expect((await v1("PATCH", "/users/joe@pve", { spec: { comment: "x" } }, "eye@pve")).status).toBe(403);
    expect((await api2("POST", "/access/users/joe@pve/token/tt", {}, "eye@pve")).status).toBe(403);
    expect((await api2("POST", "/access/users", { userid: "n@pve" }, "eye@pve")).status).toBe(403);
  });
});
