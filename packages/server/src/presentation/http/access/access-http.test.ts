// Access over the wire: what a client with nothing but HTTP sees.
import { nodeCalls } from "../../../testing/node-calls.ts";
import type { Server } from "node:http";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { AccessFixture } from "../../../testing/access-fixture.ts";
import { ROOT_PASSWORD, openAccessFixture } from "../../../testing/access-fixture.ts";
import { createPveApi } from "../pve/pve-api.ts";
import { noPlaces } from "../../../testing/quiet-kinds.ts";

let fix: AccessFixture;
let server: Server;
let base: string;
const delays: number[] = [];

beforeAll(async () => {
  fix = await openAccessFixture();
  const log = {
    debug: () => undefined,
    info: () => undefined,
    warn: () => undefined,
    error: () => undefined,
  };
  const api = createPveApi({
    authenticate: (credentials) => fix.access.authenticator.authenticate(credentials),
    accessOf: fix.access.accessOf,
    decide: fix.access.decide,
    handlers: fix.handlers,
    calls: nodeCalls({ connection: () => undefined }),
    localNode: "n1",
    knowsNode: (node) => node === "n1",
    uploads: { open: () => Promise.reject(new Error("no uploads here")) },
    fresh: (signal) => fix.records.fresh({ signal }),
    placement: noPlaces,
    ageSeconds: () => undefined,
    ready: () => undefined,
    audit: () => Promise.resolve(),
    observe: () => undefined,
    trace: (_name, _attributes, run) => run(undefined),
    log,
    newRequestId: () => "r1",
    delay: (ms) => {
      delays.push(ms);
      return Promise.resolve();
    },
  });
  server = createServer((req, res) => void api(req, res, "192.0.2.7"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api2/json`;
});
afterAll(async () => {
  server.close();
  await fix[Symbol.asyncDispose]();
});

interface Reply {
  status: number;
  reason: string;
  body: { data?: unknown; message?: string; errors?: Record<string, string> } | undefined;
}

async function http(
  method: string,
  path: string,
  headers: Record<string, string> = {},
  form?: Record<string, string>,
): Promise<Reply> {
  const answer = await fetch(base + path, {
    method,
    headers,
    ...(form === undefined ? {} : { body: new URLSearchParams(form) }),
  });
  const text = await answer.text();
  const body = text.startsWith("{") ? (JSON.parse(text) as Reply["body"]) : undefined;
  return { status: answer.status, reason: answer.statusText, body };
}

async function logIn(username: string, password: string): Promise<Record<string, string>> {
  const { body } = await http("POST", "/access/ticket", {}, { username, password });
  const { ticket, CSRFPreventionToken } = (body?.data ?? {}) as Record<string, string>;
  return {
    Cookie: `PVEAuthCookie=${encodeURIComponent(ticket ?? "")}`,
    CSRFPreventionToken: CSRFPreventionToken ?? "",
  };
}

describe("a session", () => {
  test("log in, make a user and a token, use both, and lose them", async () => {
    const root = await logIn("root@pam", ROOT_PASSWORD);
    expect(
      await http("POST", "/access/users", root, { userid: "joe@pve", password: "secret-joe" }),
    ).toMatchObject({
      status: 200,
      body: { data: null },
    });
    const made = await http("POST", "/access/users/joe@pve/token/ci", root, { privsep: "0" });
    const { value } = (made.body?.data ?? {}) as { value?: string };
    const token = { Authorization: `PVEAPIToken=joe@pve!ci=${value}` };
    expect((await http("GET", "/access/users", token)).body?.data).toEqual([]);
    expect(await http("POST", "/pools", token, {})).toMatchObject({
      status: 403,
      reason: "Permission check failed (/pool/-, Pool.Allocate)",
    });
    await http("PUT", "/access/acl", root, { path: "/pool", roles: "PVEPoolAdmin", users: "joe@pve" });
    expect((await http("POST", "/pools", token, {})).body?.errors).toEqual({
      poolid: "property is missing and it is not optional",
    });
    expect((await http("POST", "/pools", token, { poolid: "p1" })).status).toBe(200);
    expect(await http("POST", "/pools", token, { poolid: "p1" })).toMatchObject({
      status: 500,
      reason: "create pool failed: pool 'p1' already exists",
    });
    expect((await http("GET", "/pools?poolid=p1", token)).body?.data).toEqual([
      { poolid: "p1", members: [] },
    ]);
    expect((await http("DELETE", "/pools?poolid=p1", token)).status).toBe(200);
    const joe = await logIn("joe@pve", "secret-joe");
    expect((await http("GET", "/access/permissions?path=/pool", joe)).body?.data).toEqual({
      "/pool": { "Pool.Allocate": 1, "Pool.Audit": 1 },
    });
    expect((await http("DELETE", "/access/users/joe@pve", root)).status).toBe(200);
    expect(await http("GET", "/access/users", joe)).toMatchObject({
      status: 401,
      reason: "Authentication failed!",
    });
    expect(await http("GET", "/access/users", token)).toMatchObject({
      status: 401,
      reason: "Authentication failed!",
    });
  });

  test("a failed login has the envelope and comes late; one without credentials has no body", async () => {
    delays.length = 0;
    expect(await http("POST", "/access/ticket", {}, { username: "root@pam", password: "no" })).toEqual({
      status: 401,
      reason: "authentication failure",
      body: { data: null, message: "authentication failure\n" },
    });
    expect(delays[0]).toBeGreaterThan(2_000);
    expect(await http("GET", "/access/users")).toEqual({ status: 401, reason: "No ticket", body: undefined });
    expect(delays[1]).toBe(3_000);
  });

  test("without the CSRF token nothing is written", async () => {
    const { Cookie = "" } = await logIn("root@pam", ROOT_PASSWORD);
    expect(await http("POST", "/pools", { Cookie }, { poolid: "p2" })).toMatchObject({
      status: 401,
      reason: "Permission denied - invalid csrf token",
    });
    expect((await http("GET", "/pools", { Cookie })).body?.data).toEqual([]);
  });

  test("tokens get no tickets and change no passwords", async () => {
    const root = await logIn("root@pam", ROOT_PASSWORD);
    const made = await http("POST", "/access/users/root@pam/token/t1", root, { privsep: "0" });
    const { value } = (made.body?.data ?? {}) as { value?: string };
    const token = { Authorization: `PVEAPIToken=root@pam!t1=${value}` };
    const login = { username: "root@pam", password: ROOT_PASSWORD };
    for (const [method, path, form] of [
      ["POST", "/access/ticket", login],
      ["PUT", "/access/password", { userid: "root@pam", password: "12345678" }],
    ] as const) {
      expect(await http(method, path, token, form)).toMatchObject({
        status: 403,
        reason: `Permission check failed (URI '${path}' not available with API token, need proper ticket.`,
      });
    }
  });

  test("realms are shown to everyone, the index to those who are known", async () => {
    expect((await http("GET", "/access/domains")).body?.data).toHaveLength(2);
    expect((await http("GET", "/access")).status).toBe(401);
    const root = await logIn("root@pam", ROOT_PASSWORD);
    const rows = (await http("GET", "/access", root)).body?.data as { subdir: string }[];
    expect(rows.map((row) => row.subdir)).toEqual(
      expect.arrayContaining(["acl", "domains", "groups", "roles", "ticket", "users"]),
    );
  });
});
