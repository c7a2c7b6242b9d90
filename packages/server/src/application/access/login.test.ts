import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { AccessFixture } from "../../testing/access-fixture.ts";
import { ROOT_PASSWORD, openAccessFixture } from "../../testing/access-fixture.ts";
import { bootstrapAccess } from "./bootstrap.ts";
import { MAX_FAILURES } from "./login-limiter.ts";

let fix: AccessFixture;
beforeEach(async () => {
  fix = await openAccessFixture();
  await fix.call("root@pam", "POST /access/users", { userid: "joe@pve", password: "secret-joe" });
});
afterEach(() => fix[Symbol.asyncDispose]());
const FAILURE = "401 authentication failure";
interface Ticket {
  username: string;
  ticket: string;
  CSRFPreventionToken: string;
  cap: Record<string, Record<string, number>>;
}
const login = (params: Record<string, unknown>, address?: string): Promise<unknown> =>
  fix.call(undefined, "POST /access/ticket", params, address);
const ticketOf = async (username: string, password: string): Promise<Ticket> =>
  (await login({ username, password })) as Ticket;

describe("logging in", () => {
  test("a right password becomes a ticket, a CSRF token and capabilities", async () => {
    const answer = await ticketOf("root@pam", ROOT_PASSWORD);
    expect(answer).toEqual({
      username: "root@pam",
      ticket: expect.stringMatching(/^PVE:root@pam:[0-9A-F]{8}::[A-Za-z0-9+/]{342}==$/),
      CSRFPreventionToken: expect.stringMatching(/^[0-9A-F]{8}:[A-Za-z0-9+/]{43}$/),
      cap: expect.any(Object),
      clustername: "testing",
    });
    expect(Object.keys(answer.cap).toSorted()).toEqual([
      "access",
      "dc",
      "mapping",
      "nodes",
      "sdn",
      "storage",
      "vms",
    ]);
    expect(answer.cap["vms"]?.["VM.Audit"]).toBe(1);
    expect(answer.cap["dc"]).toMatchObject({ "Sys.Audit": 1, "SDN.Use": 1 });
    expect(answer.cap["access"]).toEqual({ "User.Modify": 1, "Group.Allocate": 1, "Permissions.Modify": 1 });
  });

  test("the realm may be given apart, and those without rights see no cluster name", async () => {
    const answer = await login({ username: "joe", realm: "pve", password: "secret-joe" });
    expect(answer).toMatchObject({ username: "joe@pve", cap: { vms: {} } });
    expect(answer).not.toHaveProperty("clustername");
  });

  test("capabilities come from pools, too", async () => {
    await fix.call("root@pam", "POST /access/roles", {
      roleid: "tenant",
      privs: "VM.Audit,Datastore.Audit,Permissions.Modify,Sys.Audit",
    });
    await fix.call("root@pam", "POST /pools", { poolid: "p1" });
    await fix.call("root@pam", "PUT /access/acl", { path: "/pool/p1", roles: "tenant", users: "joe@pve" });
    expect((await ticketOf("joe@pve", "secret-joe")).cap).toEqual({
      vms: { "VM.Audit": 1, "Permissions.Modify": 1 },
      storage: { "Datastore.Audit": 1, "Permissions.Modify": 1 },
      access: {},
      dc: {},
      mapping: {},
      nodes: {},
      sdn: {},
    });
  });

  test("every failure looks the same; the log knows why", async () => {
    await fix.call("root@pam", "POST /access/users", { userid: "off@pve", password: "12345678", enable: 0 });
    await fix.call("root@pam", "POST /access/users", { userid: "old@pve", password: "12345678", expire: 1 });
    await fix.call("root@pam", "POST /access/users", { userid: "lost@corp" });
    const tries: [string, string][] = [
      ["joe@pve", "wrong"],
      ["joe@pve", ""],
      ["nobody@pve", "x"],
      ["joe", "secret-joe"],
      ["off@pve", "12345678"],
      ["old@pve", "12345678"],
      ["lost@corp", "x"],
      ["dan@pam", "x"],
      ["root@pam", "x"],
    ];
    for (const [username, password] of tries) expect(await login({ username, password })).toBe(FAILURE);
    const reasons = fix.log.filter((line) => line.level === "warn").map((line) => line.fields["reason"]);
    expect(reasons).toEqual([
      "invalid credentials",
      "no password",
      "no such user",
      "no such user",
      "the user is disabled or expired",
      "the user is disabled or expired",
      "the realm does not exist",
      "no such user",
      "PAM: no",
    ]);
    expect(JSON.stringify(fix.log)).not.toContain("secret-joe");
  });

  test("host accounts are checked by the host, root@pam by both", async () => {
    fix.hostPasswords.set("dan", "dans").set("root", "host root");
    await fix.call("root@pam", "POST /access/users", { userid: "dan@pam" });
    expect(await login({ username: "dan@pam", password: "dans" })).toMatchObject({ username: "dan@pam" });
    expect(await login({ username: "root@pam", password: "host root" })).toMatchObject({
      username: "root@pam",
    });
    expect(await login({ username: "root@pam", password: ROOT_PASSWORD })).toMatchObject({
      username: "root@pam",
    });
  });

  test("a second factor nobody has is never passed over", async () => {
    const joe = { username: "joe@pve", password: "secret-joe" };
    expect(await login({ ...joe, otp: "123456" })).toBe(FAILURE);
    expect(await login({ ...joe, "tfa-challenge": "PVE:!tfa!x" })).toBe(FAILURE);
    await fix.call("root@pam", "PUT /access/domains/{realm}", { realm: "pve", tfa: "type=oath" });
    expect(await login(joe)).toBe(FAILURE);
  });

  test("a ticket renews itself, and root's makes tickets for others", async () => {
    const joe = await ticketOf("joe@pve", "secret-joe");
    const root = await ticketOf("root@pam", ROOT_PASSWORD);
    await fix.clock.advance(3_600_000);
    const renewed = await ticketOf("joe@pve", joe.ticket);
    expect(renewed.ticket).not.toBe(joe.ticket);
    expect(await login({ username: "joe@pve", password: root.ticket })).toMatchObject({
      username: "joe@pve",
    });
    expect(await login({ username: "root@pam", password: joe.ticket })).toBe(FAILURE);
    await fix.clock.advance(3_600_000);
    expect(await login({ username: "joe@pve", password: joe.ticket })).toBe(FAILURE);
    expect(await login({ username: "joe@pve", password: renewed.ticket })).toMatchObject({
      username: "joe@pve",
    });
  });

  test("verify mode says whether privileges are held", async () => {
    await fix.call("root@pam", "PUT /access/acl", {
      path: "/vms/100",
      roles: "PVEAuditor",
      users: "joe@pve",
    });
    const joe = { username: "joe@pve", password: "secret-joe", path: "/vms/100" };
    expect(await login({ ...joe, privs: "VM.Audit" })).toEqual({
      username: "joe@pve",
      cap: expect.any(Object),
    });
    expect(await login({ ...joe, privs: "VM.Console" })).toBe(FAILURE);
    expect(await login({ ...joe, path: "a b", privs: "VM.Audit" })).toBe(FAILURE);
    expect(await login({ ...joe, password: "wrong", privs: "VM.Audit" })).toBe(FAILURE);
    const { ticket } = await ticketOf("joe@pve", "secret-joe");
    expect(await login({ ...joe, password: ticket, privs: "VM.Audit" })).toMatchObject({
      username: "joe@pve",
    });
    const root = await ticketOf("root@pam", ROOT_PASSWORD);
    expect(await login({ ...joe, password: root.ticket, privs: "VM.Audit" })).toBe(FAILURE);
    const vnc = await fix.tickets.issueVnc("joe@pve", "/vms/100");
    expect(await login({ ...joe, password: vnc, privs: "VM.Audit" })).toMatchObject({ username: "joe@pve" });
  });

  test("GET answers nothing, for login pages", async () => {
    expect(await fix.call(undefined, "GET /access/ticket")).toBeNull();
  });
});

describe("guessing", () => {
  const guess = (address: string, password = "wrong"): Promise<unknown> =>
    login({ username: "joe@pve", password }, address);

  test("after ten failures even the right password waits for the next minute, but only from there", async () => {
    for (let i = 0; i < MAX_FAILURES; i++) expect(await guess("192.0.2.9")).toBe(FAILURE);
    expect(await guess("192.0.2.9", "secret-joe")).toBe(FAILURE);
    expect(fix.log.at(-1)?.fields["reason"]).toBe("too many failures in the last minute");
    expect(await guess("192.0.2.10", "secret-joe")).toMatchObject({ username: "joe@pve" });
    await fix.clock.advance(60_000);
    expect(await guess("192.0.2.9", "secret-joe")).toMatchObject({ username: "joe@pve" });
  });

  test("guessing all at once counts as well", async () => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, (_, i) => guess("192.0.2.9", i === 29 ? "secret-joe" : `wrong ${i}`)),
    );
    expect(answers.every((answer) => answer === FAILURE)).toBe(true);
    const checked = fix.log.filter((line) => line.fields["reason"] === "invalid credentials");
    expect(checked).toHaveLength(MAX_FAILURES);
  });
});

describe("console tickets", () => {
  test("are verified with their object, port and privileges", async () => {
    await fix.call("root@pam", "PUT /access/acl", { path: "/vms/100", roles: "PVEVMUser", users: "joe@pve" });
    const vncticket = await fix.tickets.issueVnc("joe@pve", "/vms/100", 5900);
    const verify = (params: Record<string, unknown>): Promise<unknown> =>
      fix.call(undefined, "POST /access/vncticket", {
        authid: "joe@pve",
        vncticket,
        path: "/vms/100/",
        privs: "VM.Console",
        port: 5900,
        ...params,
      });
    expect(await verify({})).toBeNull();
    expect(await verify({ port: 5901 })).toBe(FAILURE);
    expect(await verify({ authid: "root@pam" })).toBe(FAILURE);
    expect(await verify({ path: "/vms/101" })).toBe(FAILURE);
    expect(await verify({ path: "a b" })).toBe(FAILURE);
    expect(await verify({ privs: "VM.Allocate" })).toBe(FAILURE);
    expect(await verify({ privs: "" })).toBe(FAILURE);
    expect(await verify({ vncticket: `12345678:${vncticket}` })).toBeNull();
    await fix.clock.advance(41_000);
    expect(await verify({})).toBe(FAILURE);
  });
});

describe("changing passwords", () => {
  const change = (who: string, params: Record<string, unknown>): Promise<unknown> =>
    fix.call(who, "PUT /access/password", params);

  test("root changes anybody's, users their own with the old one", async () => {
    expect(await change("root@pam", { userid: "joe@pve", password: "by-root-1" })).toBeNull();
    const own = { userid: "joe@pve", password: "by-joe-11" };
    expect(await change("joe@pve", own)).toBe(
      '400 Parameter verification failed.\n {"confirmation-password":"password is required to modify user"}',
    );
    expect(await change("joe@pve", { ...own, "confirmation-password": "not it" })).toBe(
      "500 invalid credentials",
    );
    expect(await change("joe@pve", { ...own, "confirmation-password": "by-root-1" })).toBeNull();
    expect(await login({ username: "joe@pve", password: "by-joe-11" })).toMatchObject({
      username: "joe@pve",
    });
    expect(await login({ username: "joe@pve", password: "by-root-1" })).toBe(FAILURE);
  });

  test("others only with the right, never root's or the host's", async () => {
    const G = { groupid: "all" };
    await fix.call("root@pam", "POST /access/groups", G);
    await fix.call("root@pam", "POST /access/users", { userid: "ann@pve", groups: "all" });
    await fix.call("root@pam", "POST /access/users", { userid: "dan@pam", groups: "all" });
    expect(await change("joe@pve", { userid: "ann@pve", password: "12345678" })).toBe(
      "403 Permission check failed (/access/realm/pve, Realm.AllocateUser)",
    );
    await fix.call("root@pam", "PUT /access/acl", {
      path: "/access",
      roles: "PVEUserAdmin",
      users: "joe@pve",
    });
    const confirmed = { password: "12345678", "confirmation-password": "secret-joe" };
    expect(await change("joe@pve", { userid: "ann@pve", ...confirmed })).toBeNull();
    expect(await change("joe@pve", { userid: "root@pam", ...confirmed })).toBe("403 Permission check failed");
    expect(await change("joe@pve", { userid: "dan@pam", ...confirmed })).toBe("403 Permission check failed");
    expect(await change("root@pam", { userid: "no@pve", password: "12345678" })).toBe(
      "500 no such user ('no@pve')",
    );
  });

  test("confirming is limited like logging in", async () => {
    const wrong = { userid: "joe@pve", password: "12345678", "confirmation-password": "nope!" };
    for (let i = 0; i < MAX_FAILURES; i++) await change("joe@pve", wrong);
    expect(await change("joe@pve", { ...wrong, "confirmation-password": "secret-joe" })).toBe(
      "500 invalid credentials",
    );
  });
});

describe("permissions shown", () => {
  const show = (who: string, params = {}): Promise<unknown> =>
    fix.call(who, "GET /access/permissions", params);

  test("one's own, on one path or on all", async () => {
    await fix.call("root@pam", "POST /access/roles", { roleid: "look", privs: "VM.Audit" });
    await fix.call("root@pam", "PUT /access/acl", {
      path: "/vms/100",
      roles: "look",
      users: "joe@pve",
      propagate: 0,
    });
    expect(await show("joe@pve")).toEqual({ "/vms/100": { "VM.Audit": 0 } });
    expect(await show("joe@pve", { path: "/vms/100" })).toEqual({ "/vms/100": { "VM.Audit": 0 } });
    expect(await show("joe@pve", { path: "/vms" })).toEqual({ "/vms": {} });
    await fix.call("root@pam", "PUT /access/users/{userid}", { userid: "joe@pve", enable: false });
    expect(await show("root@pam", { userid: "joe@pve", path: "/vms/100" })).toEqual({
      "/vms/100": { "VM.Audit": 0 },
    });
    await fix.call("root@pam", "PUT /access/users/{userid}", { userid: "joe@pve", enable: true });
    expect(await show("joe@pve", { userid: "root@pam" })).toBe(
      "403 Permission check failed (/access, Sys.Audit)",
    );
    const all = (await show("root@pam")) as Record<string, Record<string, number>>;
    expect(Object.keys(all)).toContain("/access/groups");
    expect(Object.keys(all["/"] ?? {})).toHaveLength(56);
  });

  test("those of one's tokens, and of anybody for auditors", async () => {
    await fix.call("joe@pve", "POST /access/users/{userid}/token/{tokenid}", {
      userid: "joe@pve",
      tokenid: "ci",
    });
    expect(await show("joe@pve", { userid: "joe@pve!ci" })).toEqual({});
    expect(await show("root@pam!x", { userid: "joe@pve" })).toBe(
      "403 Permission check failed (/access, Sys.Audit)",
    );
    expect(await show("root@pam", { userid: "joe@pve" })).toEqual({});
  });
});

describe("the first start", () => {
  test("makes a password and a token once", async () => {
    expect(await bootstrapAccess(fix.bootstrapDeps)).toEqual({});
    const token = { name: "up", secret: "4f1c2c8e-3f62-4d1c-9d55-6f3a1b0c9e11" };
    await bootstrapAccess(fix.bootstrapDeps, { token: { ...token, secret: "an older one" } });
    await bootstrapAccess(fix.bootstrapDeps, { token });
    const { actor } = await fix.access.authenticator.authenticate({
      method: "POST",
      path: "/pools",
      authorization: `PVEAPIToken=root@pam!up=${token.secret}`,
      cookieTicket: undefined,
      csrfToken: undefined,
      clientAddress: "::1",
    });
    expect(actor?.authid).toBe("root@pam!up");
    expect(fix.access.accessOf(actor).has("/", ["Sys.Modify"])).toBe(true);
  });

  test("knows the password of an earlier call that was cut off", async () => {
    await fix.records.transact((tx) =>
      tx.delete({ prefix: "/gpve/secrets/passwords/", decode: (x) => x }, "root@pam"),
    );
    const rootPassword = "written down first";
    expect(await bootstrapAccess(fix.bootstrapDeps, { rootPassword })).toEqual({ rootPassword });
    expect(await bootstrapAccess(fix.bootstrapDeps, { rootPassword })).toEqual({ rootPassword });
    expect(await bootstrapAccess(fix.bootstrapDeps, { rootPassword: "another" })).toEqual({});
  });

  test("generates a password nobody can guess", async () => {
    await fix.records.transact((tx) =>
      tx.delete({ prefix: "/gpve/secrets/passwords/", decode: (x) => x }, "root@pam"),
    );
    const { rootPassword } = await bootstrapAccess(fix.bootstrapDeps);
    expect(rootPassword).toMatch(/^[\w-]{20}$/);
    expect(await login({ username: "root@pam", password: rootPassword })).toMatchObject({
      username: "root@pam",
    });
  });
});
