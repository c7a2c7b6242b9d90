import { afterEach, beforeEach, expect, test } from "vitest";
import type { AccessFixture } from "../../testing/access-fixture.ts";
import { openAccessFixture } from "../../testing/access-fixture.ts";

let fix: AccessFixture;
const TOKEN = "/access/users/{userid}/token/{tokenid}";
const joe = { userid: "joe@pve", tokenid: "ci" };
beforeEach(async () => {
  fix = await openAccessFixture();
  await fix.call("root@pam", "POST /access/users", { userid: "joe@pve" });
});
afterEach(() => fix[Symbol.asyncDispose]());

const authenticate = (authorization: string): Promise<unknown> =>
  fix.access.authenticator
    .authenticate({
      method: "GET",
      path: "/version",
      authorization,
      cookieTicket: undefined,
      csrfToken: undefined,
      clientAddress: "::1",
    })
    .then(
      (result) => result.actor?.authid,
      (err: Error) => err.message,
    );

test("a token is made, shown, changed and removed", async () => {
  const made = (await fix.call("joe@pve", `POST ${TOKEN}`, { ...joe, comment: "for CI" })) as Record<
    string,
    unknown
  >;
  expect(made).toEqual({
    "full-tokenid": "joe@pve!ci",
    info: { privsep: 1, expire: 0, comment: "for CI" },
    value: expect.stringMatching(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/),
  });
  expect(await fix.call("joe@pve", `GET ${TOKEN}`, joe)).toEqual({
    privsep: 1,
    expire: 0,
    comment: "for CI",
  });
  expect(await fix.call("joe@pve", "GET /access/users/{userid}/token", { userid: "joe@pve" })).toEqual([
    { tokenid: "ci", privsep: 1, expire: 0, comment: "for CI" },
  ]);
  expect(await fix.call("joe@pve", `PUT ${TOKEN}`, { ...joe, privsep: 0, expire: 5, comment: "" })).toEqual({
    privsep: 0,
    expire: 5,
    comment: "for CI",
  });
  expect(await fix.call("joe@pve", `PUT ${TOKEN}`, { ...joe, delete: "comment,expire" })).toEqual({
    privsep: 0,
    expire: 0,
  });
  await fix.call("root@pam", "PUT /access/acl", { path: "/", roles: "PVEAuditor", tokens: "joe@pve!ci" });
  expect(await fix.call("joe@pve", `DELETE ${TOKEN}`, joe)).toBeNull();
  expect(await fix.call("root@pam", "GET /access/acl")).toEqual([]);
  expect(await fix.call("joe@pve", `GET ${TOKEN}`, joe)).toBe("500 no such token 'ci' for user 'joe@pve'");
});

test("a regenerated secret replaces the old one", async () => {
  const first = (await fix.call("joe@pve", `POST ${TOKEN}`, joe)) as { value: string };
  const second = (await fix.call("joe@pve", `PUT ${TOKEN}`, { ...joe, regenerate: 1 })) as Record<
    string,
    string
  >;
  expect(second).toMatchObject({ "full-tokenid": "joe@pve!ci", privsep: 1 });
  expect(await authenticate(`PVEAPIToken=joe@pve!ci=${first.value}`)).toBe("Authentication failed!");
  expect(await authenticate(`PVEAPIToken=joe@pve!ci=${second["value"]}`)).toBe("joe@pve!ci");
});

test("mistakes get PVE's texts", async () => {
  await fix.call("joe@pve", `POST ${TOKEN}`, joe);
  expect(await fix.call("joe@pve", `POST ${TOKEN}`, joe)).toBe(
    '400 Parameter verification failed.\n {"tokenid":"Token already exists."}',
  );
  expect(await fix.call("root@pam", `POST ${TOKEN}`, { userid: "no@pve", tokenid: "ci" })).toBe(
    "500 no such user ('no@pve')",
  );
  expect(await fix.call("root@pam", `DELETE ${TOKEN}`, { ...joe, tokenid: "other" })).toBe(
    "500 no such token 'other' for user 'joe@pve'",
  );
  expect(await fix.call("joe@pve", `PUT ${TOKEN}`, { ...joe, delete: "privsep" })).toBe(
    '400 Parameter verification failed.\n {"delete":"unable to delete \'privsep\'"}',
  );
  expect(await fix.call("joe@pve", `POST ${TOKEN}`, { userid: "root@pam", tokenid: "mine" })).toBe(
    "403 Permission check failed",
  );
});

test("two makers of the same token: one wins, the other is told", async () => {
  const answers = await Promise.all([1, 2].map(() => fix.call("joe@pve", `POST ${TOKEN}`, joe)));
  expect(
    answers.filter((answer) => answer === "500 generating token failed: Token already exists."),
  ).toHaveLength(1);
});
