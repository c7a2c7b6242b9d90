import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { isAppError } from "@gpve/contracts/errors.ts";
import type { AccessFixture } from "../../testing/access-fixture.ts";
import { openAccessFixture } from "../../testing/access-fixture.ts";
import type { Credentials } from "./authenticator.ts";

let fix: AccessFixture;
let ticket: string;
let csrf: string;
let secret: string;
beforeEach(async () => {
  fix = await openAccessFixture();
  await fix.call("root@pam", "POST /access/users", { userid: "joe@pve", password: "secret-joe" });
  const token = { userid: "joe@pve", tokenid: "ci" };
  const made = await fix.call("root@pam", "POST /access/users/{userid}/token/{tokenid}", token);
  secret = (made as { value: string }).value;
  ticket = await fix.tickets.issue("joe@pve");
  csrf = fix.tickets.issueCsrf("joe@pve");
});
afterEach(() => fix[Symbol.asyncDispose]());

async function who(credentials: Partial<Credentials>): Promise<string> {
  try {
    const { actor, via } = await fix.access.authenticator.authenticate({
      method: "GET",
      path: "/version",
      cookieTicket: undefined,
      authorization: undefined,
      csrfToken: undefined,
      clientAddress: "::1",
      ...credentials,
    });
    return `${actor?.authid ?? "nobody"} by ${via}`;
  } catch (err) {
    if (!isAppError(err) || err.kind !== "unauthenticated") throw err;
    return err.message;
  }
}

describe("tickets", () => {
  test("come by cookie or header, encoded or not, and the cookie is preferred", async () => {
    expect(await who({ cookieTicket: ticket })).toBe("joe@pve by ticket");
    expect(await who({ cookieTicket: encodeURIComponent(ticket) })).toBe("joe@pve by ticket");
    expect(await who({ authorization: `PVEAuthCookie=${encodeURIComponent(ticket)}` })).toBe(
      "joe@pve by ticket",
    );
    expect(await who({ authorization: `PVEAuthCookie ${ticket}` })).toBe("joe@pve by ticket");
    expect(await who({ cookieTicket: ticket, authorization: "PVEAPIToken=x@pve!yy=z" })).toBe(
      "joe@pve by ticket",
    );
  });

  test("writing needs the CSRF token of the same user; uploading does not", async () => {
    const post = { method: "POST", path: "/pools", cookieTicket: ticket };
    const refusal = "Permission denied - invalid csrf token";
    expect(await who({ ...post, csrfToken: csrf })).toBe("joe@pve by ticket");
    expect(await who(post)).toBe(refusal);
    expect(await who({ ...post, csrfToken: "x" })).toBe(refusal);
    expect(await who({ ...post, csrfToken: fix.tickets.issueCsrf("ann@pve") })).toBe(refusal);
    expect(await who({ ...post, path: "/nodes/n1/storage/local/upload" })).toBe("joe@pve by ticket");
    await fix.clock.advance(7_100_000);
    const fresh = await fix.tickets.issue("joe@pve");
    await fix.clock.advance(100_000);
    expect(await who({ ...post, cookieTicket: fresh, csrfToken: csrf })).toBe(refusal);
  });

  test("nothing at all is said to be missing, rubbish to be wrong", async () => {
    expect(await who({})).toBe("No ticket");
    expect(await who({ cookieTicket: "" })).toBe("No ticket");
    expect(await who({ authorization: "Basic abc" })).toBe("No ticket");
    expect(await who({ cookieTicket: "PVE:root@pam:00000000::AAAA" })).toBe("Authentication failed!");
    expect(await who({ cookieTicket: "%zz" })).toBe("Authentication failed!");
  });

  test("those of disabled, expired and deleted users are worth nothing", async () => {
    const update = (params: object): Promise<unknown> =>
      fix.call("root@pam", "PUT /access/users/{userid}", { userid: "joe@pve", ...params });
    await update({ enable: 0 });
    expect(await who({ cookieTicket: ticket })).toBe("Authentication failed!");
    await update({ enable: 1, expire: 1 });
    expect(await who({ cookieTicket: ticket })).toBe("Authentication failed!");
    await update({ expire: 0 });
    expect(await who({ cookieTicket: ticket })).toBe("joe@pve by ticket");
    await fix.call("root@pam", "DELETE /access/users/{userid}", { userid: "joe@pve" });
    expect(await who({ cookieTicket: ticket })).toBe("Authentication failed!");
  });
});

describe("API tokens", () => {
  const token = (text: string): Promise<string> => who({ method: "DELETE", authorization: text });

  test("come after = or a space, encoded or not, and need no CSRF token", async () => {
    expect(await token(`PVEAPIToken=joe@pve!ci=${secret}`)).toBe("joe@pve!ci by token");
    expect(await token(`PVEAPIToken joe@pve!ci=${secret}`)).toBe("joe@pve!ci by token");
    expect(await token(`PVEAPIToken=joe%40pve%21ci%3D${secret}`)).toBe("joe@pve!ci by token");
  });

  test("wrong ones are refused", async () => {
    for (const text of [
      `joe@pve!ci=${secret.slice(1)}`,
      `joe@pve!xx=${secret}`,
      "joe@pve!ci",
      "joe@pve!ci=",
      "=",
      "x",
    ]) {
      expect(await token(`PVEAPIToken=${text}`)).toBe("Authentication failed!");
    }
  });

  test("those of expired tokens and of disabled or deleted owners are refused", async () => {
    const text = `PVEAPIToken=joe@pve!ci=${secret}`;
    const put = (route: string, params: object): Promise<unknown> =>
      fix.call("root@pam", route, { userid: "joe@pve", tokenid: "ci", ...params });
    await put("PUT /access/users/{userid}/token/{tokenid}", { expire: 1 });
    expect(await token(text)).toBe("Authentication failed!");
    await put("PUT /access/users/{userid}/token/{tokenid}", { expire: 0 });
    expect(await token(text)).toBe("joe@pve!ci by token");
    await fix.call("root@pam", "PUT /access/users/{userid}", { userid: "joe@pve", enable: 0 });
    expect(await token(text)).toBe("Authentication failed!");
    await fix.call("root@pam", "DELETE /access/users/{userid}", { userid: "joe@pve" });
    expect(await token(text)).toBe("Authentication failed!");
    await fix.call("root@pam", "POST /access/users", { userid: "joe@pve" });
    expect(await token(text)).toBe("Authentication failed!");
  });

  test("what was believed holds until anything it rests on changes", async () => {
    await fix.call("root@pam", "POST /pools", { poolid: "mine" });
    const authorization = `PVEAPIToken=joe@pve!ci=${secret}`;
    const holds = async (): Promise<() => boolean> => {
      const none = { cookieTicket: undefined, csrfToken: undefined, clientAddress: "::1" };
      const credentials = { method: "GET", path: "/version", authorization, ...none };
      const { holds: found } = await fix.access.authenticator.authenticate(credentials);
      if (found === undefined) throw new Error("a token was believed without saying for how long");
      return found;
    };
    const joe = { userid: "joe@pve", tokenid: "ci" };
    const acl = { path: "/vms", tokens: "joe@pve!ci", roles: "PVEAuditor" };
    const changes: readonly [string, Record<string, unknown>][] = [
      ["PUT /access/acl", acl],
      ["PUT /access/acl", { ...acl, delete: 1 }],
      ["PUT /pools/{poolid}", { poolid: "mine", comment: "of joe" }],
      ["POST /access/roles", { roleid: "Mine", privs: "VM.Audit" }],
      ["POST /access/groups", { groupid: "ours" }],
      ["PUT /access/users/{userid}", { userid: "joe@pve", groups: "ours" }],
      ["PUT /access/users/{userid}/token/{tokenid}", { ...joe, privsep: 0 }],
    ];
    for (const [route, params] of changes) {
      const before = await holds();
      expect(before()).toBe(true);
      // The same for all requests in between, so that they know each other's answers.
      expect(await holds()).toBe(before);
      await fix.call("root@pam", route, params);
      expect(`${route}: ${before()}`).toBe(`${route}: false`);
    }
    const soon = Math.floor(fix.clock.now() / 1000) + 10;
    await fix.call("root@pam", "PUT /access/users/{userid}/token/{tokenid}", { ...joe, expire: soon });
    const before = await holds();
    expect(before()).toBe(true);
    await fix.clock.advance(11_000);
    expect(before()).toBe(false);
    await fix.call("root@pam", "PUT /access/users/{userid}/token/{tokenid}", { ...joe, expire: 0 });
    const last = await holds();
    await fix.call("root@pam", "DELETE /access/users/{userid}/token/{tokenid}", joe);
    expect(last()).toBe(false);
    await fix.call("root@pam", "POST /access/users/{userid}/token/{tokenid}", joe);
    expect(last()).toBe(false);
  });

  test("a digest sealed for another token does not open", async () => {
    const made = await fix.call("root@pam", "POST /access/users/{userid}/token/{tokenid}", {
      userid: "joe@pve",
      tokenid: "other",
    });
    expect(await token(`PVEAPIToken=joe@pve!ci=${(made as { value: string }).value}`)).toBe(
      "Authentication failed!",
    );
  });
});

test("methods for everyone authenticate nobody, but show that a token was used", async () => {
  expect(await who({ path: "/access/domains", cookieTicket: "rubbish" })).toBe("nobody by none");
  expect(await who({ method: "POST", path: "/access/ticket" })).toBe("nobody by none");
  expect(await who({ method: "POST", path: "/access/ticket", authorization: "PVEAPIToken=a@pve!bb=c" })).toBe(
    "nobody by token",
  );
  expect(await who({ method: "PUT", path: "/access/domains" })).toBe("No ticket");
});

test("no header makes the authenticator fail in any other way", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.string(),
      fc.string(),
      fc.constantFrom("PVEAPIToken=", "PVEAuthCookie ", ""),
      async (a, b, p) => {
        expect(["No ticket", "Authentication failed!"]).toContain(
          await who({ authorization: `${p}${a}`, csrfToken: b }),
        );
      },
    ),
  );
});

test("a known ticket or token costs little", async () => {
  const authorization = `PVEAPIToken=joe@pve!ci=${secret}`;
  await who({ authorization });
  await who({ cookieTicket: ticket });
  const started = process.cpuUsage().user / 1000;
  for (let i = 0; i < 1_000; i++) {
    await who({ authorization });
    await who({ cookieTicket: ticket });
  }
  // About 10 microseconds each; an RSA operation for every request would take ten times as long.
  expect(process.cpuUsage().user / 1000 - started).toBeLessThan(1_000);
});
