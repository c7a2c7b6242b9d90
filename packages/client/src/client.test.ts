import { beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { GpveClient } from "./client.ts";
import type { Credentials, Ticket } from "./authentication.ts";
import { FakeApi, FakeTransport } from "./testing/fake-api.ts";

const HOUR = 3600_000;

class TestClock {
  time = 1_000_000;
  now(): number {
    return this.time;
  }
  async sleep(ms: number): Promise<void> {
    this.time += ms;
  }
}

let api: FakeApi;
let clock: TestClock;
let tickets: Ticket[];

beforeEach(() => {
  api = new FakeApi();
  clock = new TestClock();
  tickets = [];
});

function client(credentials: Credentials): GpveClient {
  return new GpveClient({
    transport: new FakeTransport(api),
    credentials,
    clock,
    onTicket: (ticket) => tickets.push(ticket),
  });
}

const token = { kind: "token", token: "root@pam!up=s3cret" } as const;
const password = { kind: "password", username: "joe@pve", password: "hunter22" } as const;

describe("authentication", () => {
  beforeEach(() => {
    let count = 0;
    api.pve("GET /version", { version: "9.2" }).pve("POST /pools", null);
    api.on("POST /api2/json/access/ticket", (request) => {
      count += 1;
      const data = {
        username: request.form.get("username"),
        ticket: `PVE:t${count}`,
        CSRFPreventionToken: `c${count}`,
      };
      return { body: { data } };
    });
  });

  test("a token goes into the header and needs no login", async () => {
    await client(token).pve.get("/version");
    expect(api.requests.map((request) => request.headers["authorization"])).toEqual([
      "PVEAPIToken=root@pam!up=s3cret",
    ]);
  });

  test("nobody sends no credentials", async () => {
    await client({ kind: "anonymous" }).pve.get("/version");
    expect(api.requests[0]?.headers).toEqual({ accept: "application/json" });
  });

  test("a password is traded for one ticket; writes carry the CSRF token", async () => {
    const { pve } = client(password);
    await Promise.all([pve.get("/version"), pve.get("/version")]);
    await pve.post("/pools", { poolid: "p1" });
    expect(api.requests.filter((request) => request.path.endsWith("/ticket"))).toHaveLength(1);
    expect(api.last("GET /api2/json/version").headers["cookie"]).toBe("PVEAuthCookie=PVE%3At1");
    expect(api.last("GET /api2/json/version").headers["csrfpreventiontoken"]).toBeUndefined();
    expect(api.last("POST /api2/json/pools").headers["csrfpreventiontoken"]).toBe("c1");
  });

  test("a ticket is renewed with itself after an hour, with the password after two", async () => {
    const { pve } = client(password);
    await pve.get("/version");
    clock.time += 1.5 * HOUR;
    await pve.get("/version");
    expect(api.last("POST /api2/json/access/ticket").form.get("password")).toBe("PVE:t1");
    clock.time += 3 * HOUR;
    await pve.get("/version");
    expect(api.last("POST /api2/json/access/ticket").form.get("password")).toBe("hunter22");
    expect(tickets.map((ticket) => ticket.ticket)).toEqual(["PVE:t1", "PVE:t2", "PVE:t3"]);
  });

  test("a 401 in the middle leads to one new login and one repeat", async () => {
    const { pve } = client(password);
    await pve.get("/version");
    api.on("GET /api2/json/version", (request) =>
      request.headers["cookie"]?.endsWith("t1")
        ? { status: 401, reason: "Authentication failed!" }
        : { body: { data: "again" } },
    );
    expect(await pve.get("/version")).toBe("again");
    api.on("GET /api2/json/version", { status: 401, reason: "Authentication failed!" });
    await expect(pve.get("/version")).rejects.toMatchObject({ code: "auth.failed" });
  });

  test("a kept ticket that has expired asks for a login", async () => {
    const ticket = {
      username: "joe@pve",
      ticket: "PVE:old",
      csrfToken: "c",
      issuedAt: clock.time - 3 * HOUR,
    };
    await expect(client({ kind: "ticket", ticket }).pve.get("/version")).rejects.toMatchObject({
      code: "auth.required",
    });
    const fresh = { ...ticket, issuedAt: clock.time };
    await client({ kind: "ticket", ticket: fresh }).pve.get("/version");
    expect(api.last("GET /api2/json/version").headers["cookie"]).toBe("PVEAuthCookie=PVE%3Aold");
  });

  test("a refused renewal falls back to the password", async () => {
    const { pve } = client(password);
    await pve.get("/version");
    clock.time += 1.5 * HOUR;
    api.on("POST /api2/json/access/ticket", (request) =>
      request.form.get("password") === "hunter22"
        ? { body: { data: { ticket: "PVE:new", CSRFPreventionToken: "c" } } }
        : { status: 401, reason: "authentication failure", body: { data: null } },
    );
    await pve.get("/version");
    expect(tickets.at(-1)).toMatchObject({ ticket: "PVE:new", username: "joe@pve" });
  });

  test("a token gives way to the password only for what tokens may not do", async () => {
    const both = { ...password, kind: "token-or-password", token: "root@pam!up=s" } as const;
    const { pve } = client(both);
    api.on("GET /api2/json/version", (request) =>
      request.headers["cookie"] === undefined
        ? { status: 403, reason: "Permission check failed (user != root@pam)" }
        : { body: { data: "root" } },
    );
    expect(await pve.get("/version")).toBe("root");
    api.on("GET /api2/json/nodes", { status: 403, reason: "Permission check failed (/, Sys.Audit)" });
    await expect(client(both).pve.get("/nodes")).rejects.toMatchObject({ code: "access.denied" });
    expect(api.requests.filter((request) => request.path.endsWith("/ticket"))).toHaveLength(1);
  });

  test.each([
    ["Only root can pass arbitrary filesystem paths.", undefined],
    ["Parameter verification failed.", { skiplock: "Only root may use this option." }],
    ["only root can set 'args' config", undefined],
  ])("what only root may do is asked for with the password: %s", async (message, errors) => {
    const { pve } = client({ ...password, kind: "token-or-password", token: "root@pam!up=s" });
    api.on("GET /api2/json/version", (request) =>
      request.headers["cookie"] === undefined
        ? { status: 500, reason: message, body: { data: null, message, errors } }
        : { body: { data: "root" } },
    );
    expect(await pve.get("/version")).toBe("root");
  });

  test("login answers without a ticket are explained", async () => {
    api.pve("POST /access/ticket", { NeedTFA: 1, ticket: "PVE:!tfa!" });
    await expect(client(password).login()).rejects.toThrow(/second factor/);
    api.pve("POST /access/ticket", {});
    await expect(client(password).login()).rejects.toThrow(/no ticket/);
    api.pve("POST /access/ticket", null);
    await expect(client(password).login()).rejects.toThrow(/no data/);
    api.pveError("POST /access/ticket", 401, "authentication failure");
    await expect(client(password).login()).rejects.toMatchObject({ code: "auth.failed" });
  });
});

describe("the Proxmox face", () => {
  test("puts parameters into path, query and form as PVE wants them", async () => {
    api.pve("GET /nodes/n1/tasks", [], 0).pve("DELETE /pools", null).pve("PUT /access/acl", null);
    const { pve } = client(token);
    await pve.list("/nodes/{node}/tasks", { node: "n1", limit: 5, errors: true });
    expect(api.last("GET /api2/json/nodes/n1/tasks").query.toString()).toBe("limit=5&errors=1");
    await pve.delete("/pools", { poolid: "a/b" });
    expect(api.last("DELETE /api2/json/pools").query.get("poolid")).toBe("a/b");
    await pve.put("/access/acl", { path: "/", roles: "PVEAdmin", users: "joe@pve", propagate: false });
    expect(api.last("PUT /api2/json/access/acl").body).toBe(
      "path=%2F&roles=PVEAdmin&users=joe%40pve&propagate=0",
    );
  });

  test("answers keep total and changes; odd answers are errors", async () => {
    const { pve } = client(token);
    api.on("GET /api2/json/x", { body: { data: [1], total: 9, changes: "diff" } });
    expect(await pve.call("GET", "/x")).toEqual({ data: [1], total: 9, changes: "diff" });
    api.on("GET /api2/json/version", { body: "<html>" });
    await expect(pve.get("/version")).rejects.toThrow("GET /version did not answer with JSON");
    api.on("GET /api2/json/version", { body: "3" });
    await expect(pve.get("/version")).rejects.toThrow(/with an object/);
    api.pve("GET /nodes", {});
    await expect(pve.list("/nodes")).rejects.toThrow(/with a list/);
    api.pve("GET /nodes", ["n1"]);
    expect(await pve.list("/nodes")).toEqual([{ value: "n1" }]);
  });

  test("closing the client closes the transport", () => {
    const transport = new FakeTransport(api);
    new GpveClient({ transport, credentials: token, clock }).close();
    expect(transport.closed).toBe(true);
  });
});

describe("waiting for a task", () => {
  const upid = "UPID:n1:00000001:00000000:65000000:qmstart:100:root@pam:";
  const base = `/nodes/n1/tasks/${upid}`;

  test("passes on log lines once and ends with the outcome", async () => {
    let polls = 0;
    const log = ["one", "two", "TASK OK"];
    api.on(`GET /api2/json${base}/status`, () => {
      polls += 1;
      return { body: { data: polls < 3 ? { status: "running" } : { status: "stopped", exitstatus: "OK" } } };
    });
    api.on(`GET /api2/json${base}/log`, (request) => {
      const start = Number(request.query.get("start"));
      const rows = log.slice(0, polls).map((t, i) => ({ n: i + 1, t }));
      return { body: { data: rows.slice(start), total: polls } };
    });
    const lines: string[] = [];
    const outcome = await client(token).waitTask(upid, { onLog: (line) => lines.push(line) });
    expect(outcome).toEqual({ upid, exitstatus: "OK", ok: true });
    expect(lines).toEqual(log);
  });

  test("goes on while the server is started anew, and says that the work does where nobody answers for long", async () => {
    let polls = 0;
    api.on(`GET /api2/json${base}/status`, () => {
      polls += 1;
      if (polls < 4) throw new AppError(polls === 2 ? "request.timeout" : "node.unavailable", "no answer");
      return { body: { data: { status: "stopped", exitstatus: "OK" } } };
    });
    expect(await client(token).waitTask(upid)).toMatchObject({ ok: true });
    api.on(`GET /api2/json${base}/status`, () => {
      throw new AppError("node.unavailable", "no answer");
    });
    await expect(client(token).waitTask(upid)).rejects.toMatchObject({
      code: "node.unavailable",
      data: { upid, next: `The work goes on without being watched. Its log: gpvectl task follow ${upid}` },
    });
  });

  test("is not patient with an answer that says no", async () => {
    api.pveError(`GET ${base}/status`, 403, "Permission check failed");
    const before = api.requests.length;
    await expect(client(token).waitTask(upid)).rejects.toMatchObject({ code: "access.denied" });
    expect(api.requests.length - before).toBe(1);
  });

  test("counts warnings as success and anything else as failure", async () => {
    api.pve(`GET ${base}/status`, { status: "stopped", exitstatus: "WARNINGS: 2" });
    expect(await client(token).requireTask(upid)).toMatchObject({ ok: true });
    api.pve(`GET ${base}/status`, { status: "stopped", exitstatus: "VM 100 already running" });
    await expect(client(token).requireTask(upid)).rejects.toMatchObject({
      code: "operation.failed",
      message: "VM 100 already running",
    });
    api.pve(`GET ${base}/status`, { status: "stopped" });
    expect(await client(token).waitTask(upid)).toMatchObject({ ok: false, exitstatus: "unexpected status" });
  });

  test("an empty log gives no lines; a wait can be limited", async () => {
    api.pve(`GET ${base}/status`, { status: "running" });
    api.pve(`GET ${base}/log`, [{ n: 1, t: "no content" }]);
    const lines: string[] = [];
    const wait = client(token).waitTask(upid, { timeoutMs: 3000, onLog: (line) => lines.push(line) });
    await expect(wait).rejects.toMatchObject({ code: "request.timeout" });
    expect(lines).toEqual([]);
  });

  test("refuses what is not a UPID", async () => {
    await expect(client(token).waitTask("nonsense")).rejects.toMatchObject({
      code: "request.invalid",
      errors: { upid: "unable to parse worker upid" },
    });
  });
});
