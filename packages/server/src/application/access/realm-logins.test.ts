import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { realmsDef } from "@gpve/domain/access/collections.ts";
import type { Realm } from "@gpve/domain/access/types.ts";
import { openAccessFixture, ROOT_PASSWORD, type AccessFixture } from "../../testing/access-fixture.ts";
import { FakeRealmLogin } from "../../testing/fake-realm-login.ts";
import { realmLoginConformance } from "../../testing/realm-login-conformance.ts";
import { MAX_FAILURES } from "./login-limiter.ts";
import { PamRealmLogin, PveRealmLogin } from "./realm-logins.ts";

const ours = {
  matches: (userid: string, password: string) =>
    Promise.resolve(password === "secret" && userid === "joe@pve"),
};

describe("a realm with passwords of ours", () => {
  realmLoginConformance(async () => ({
    realm: new PveRealmLogin(ours),
    user: { userid: "joe@pve", name: "joe" },
    password: "secret",
  }));
});

describe("the host's realm", () => {
  realmLoginConformance(async () => ({
    realm: new PamRealmLogin(ours, {
      authenticate: async (name, password) =>
        name === "dan" && password === "geheim" ? { ok: true } : { ok: false, reason: "PAM says no" },
    }),
    user: { userid: "dan@pam", name: "dan" },
    password: "geheim",
  }));
});

describe("a realm that asks twice, of whom it asks once", () => {
  realmLoginConformance(async () => {
    const realm = new FakeRealmLogin();
    realm.passwords.set("eve@corp", "secret");
    return { realm, user: { userid: "eve@corp", name: "eve" }, password: "secret" };
  });
});

describe("a login of several steps", () => {
  let fix: AccessFixture;
  const FAILURE = "401 authentication failure";
  interface Answer {
    readonly username: string;
    readonly ticket: string;
    readonly NeedTFA?: number;
    readonly cap?: unknown;
    readonly CSRFPreventionToken?: string;
  }
  const login = (params: Record<string, unknown>): Promise<unknown> =>
    fix.call(undefined, "POST /access/ticket", params);
  const asked = async (params: Record<string, unknown>): Promise<Answer> => (await login(params)) as Answer;
  const first = { username: "eve@corp", password: "secret" };

  beforeEach(async () => {
    fix = await openAccessFixture();
    const corp = { realm: "corp", type: "twofold" } as unknown as Realm;
    await fix.records.transact((tx) => tx.put(realmsDef, "corp", corp));
    for (const userid of ["eve@corp", "sue@corp"]) {
      await fix.call("root@pam", "POST /access/users", { userid });
      fix.twofoldRealm.passwords.set(userid, "secret");
      fix.twofoldRealm.asksTwice.add(userid);
    }
  });
  afterEach(() => fix[Symbol.asyncDispose]());

  test("is asked for each in PVE's form, and let in at the end", async () => {
    const one = await asked(first);
    expect(one).toMatchObject({ username: "eve@corp", NeedTFA: 1 });
    expect(one.ticket).toMatch(/^PVE:!tfa![^:]+:[0-9A-F]{8}::[A-Za-z0-9+/]{342}==$/);
    expect(decodeURIComponent(one.ticket.split(":")[1] ?? "")).toBe('!tfa!{"totp":true,"step":1,"number":1}');
    expect([one.cap, one.CSRFPreventionToken]).toEqual([undefined, undefined]);
    const two = await asked({
      username: "eve@corp",
      password: "totp:123456",
      "tfa-challenge": one.ticket,
    });
    expect(two.NeedTFA).toBe(1);
    const three = await asked({
      username: "eve@corp",
      password: "word:sesame",
      "tfa-challenge": two.ticket,
    });
    expect(three).toMatchObject({ username: "eve@corp", cap: expect.any(Object) as object });
    expect(three.NeedTFA).toBeUndefined();
    expect(fix.tickets.verify(three.ticket)?.userid).toBe("eve@corp");
    // The code may come with the password.
    const short = await asked({ ...first, otp: "totp:123456" });
    expect(decodeURIComponent(short.ticket)).toContain('"step":2');
  });

  test("a challenge opens nothing, and is one user's, for minutes, and as it was signed", async () => {
    const { ticket } = await asked(first);
    expect(fix.tickets.verify(ticket)).toBeUndefined();
    expect(await login({ username: "eve@corp", password: ticket })).toBe(FAILURE);
    const answer = { password: "totp:123456", "tfa-challenge": ticket };
    expect(await login({ username: "sue@corp", ...answer })).toBe(FAILURE);
    const skipped = ticket.replace(/step([^0-9]*?3A)1/, "step$12");
    expect(skipped).not.toBe(ticket);
    expect(await login({ username: "eve@corp", password: "word:sesame", "tfa-challenge": skipped })).toBe(
      FAILURE,
    );
    const root = (await login({ username: "root@pam", password: ROOT_PASSWORD })) as Answer;
    expect(await login({ username: "eve@corp", ...answer, "tfa-challenge": root.ticket })).toBe(FAILURE);
    expect(await login({ username: "eve@corp", ...answer, path: "/", privs: "VM.Audit" })).toBe(FAILURE);
    expect(await login({ ...first, path: "/", privs: "VM.Audit" })).toBe(FAILURE);
    await fix.clock.advance(301_000);
    expect(await login({ username: "eve@corp", ...answer })).toBe(FAILURE);
  });

  test("guesses at the second step are counted, whatever passes the first in between", async () => {
    for (let index = 0; index < MAX_FAILURES; index++) {
      const { ticket } = await asked(first);
      expect(await login({ username: "eve@corp", password: "totp:0", "tfa-challenge": ticket })).toBe(
        FAILURE,
      );
    }
    expect(await login(first)).toBe(FAILURE);
    expect(fix.log.at(-1)?.fields["reason"]).toBe("too many failures in the last minute");
  });

  test("who is disabled meanwhile is not let in, and a realm of no known type lets nobody in", async () => {
    const { ticket } = await asked(first);
    await fix.call("root@pam", "PUT /access/users/{userid}", { userid: "eve@corp", enable: 0 });
    expect(await login({ username: "eve@corp", password: "totp:123456", "tfa-challenge": ticket })).toBe(
      FAILURE,
    );
    const ldap = { realm: "ldap", type: "ldap" } as unknown as Realm;
    await fix.records.transact((tx) => tx.put(realmsDef, "ldap", ldap));
    await fix.call("root@pam", "POST /access/users", { userid: "joe@ldap" });
    expect(await login({ username: "joe@ldap", password: "x" })).toBe(FAILURE);
    expect(fix.log.at(-1)?.fields["reason"]).toBe("realms of type 'ldap' cannot let anybody in yet");
  });
});
