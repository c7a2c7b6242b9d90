import { decideAnything } from "@gpve/domain/access/testing/decided.ts";
import { nodeCalls } from "../../../testing/node-calls.ts";
import { Agent, createServer, request, type IncomingMessage, type Server } from "node:http";
import { connect, type AddressInfo } from "node:net";
import { gunzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentUnreachable } from "@gpve/domain/node/agent-port.ts";
import type { AccessView, Actor } from "@gpve/domain/request/context.ts";
import { PveReply } from "@gpve/domain/request/handler.ts";
import { createEntry } from "../entry.ts";
import { createPveApi } from "./pve-api.ts";
import type { AuditedCall } from "../../../application/audit/record-audit.ts";
import type { PveApiDeps } from "./ports.ts";
import { ReadyReads } from "./ready-reads.ts";
import { noPlaces } from "../../../testing/quiet-kinds.ts";

const root: Actor = { userid: "root@pam", authid: "root@pam" };
const everything: AccessView = { privileges: () => new Map(), has: () => true, require: () => undefined };
const audited: (AuditedCall | undefined)[] = [];
const delays: number[] = [];
const agentCalls: unknown[] = [];

/** Named fake: authentication by a fixed cookie, everything else as the real server has it. */
async function* tornBody(): AsyncGenerator<Uint8Array> {
  yield await Promise.resolve(Buffer.from("the first half"));
  throw new Error("the disk is gone");
}

const ready = new ReadyReads();
const read = { times: 0, version: 1, known: true };
let believed = (): boolean => true;

const fakeDeps: PveApiDeps = {
  ready: () => ready,
  placement: noPlaces,
  ageSeconds: () => undefined,
  authenticate: async ({ path, cookieTicket, authorization }) => {
    if (path === "/access/ticket") return { actor: undefined, via: "none" };
    if (cookieTicket === "good") return { actor: root, via: "ticket" };
    if (authorization === "PVEAPIToken=good")
      return { actor: { ...root, tokenid: "t", authid: "root@pam!t" }, via: "token", holds: believed };
    throw new AppError("auth.required", "No ticket");
  },
  accessOf: () => everything,
  decide: (route, params, subject) => {
    if (params["poolid"] === "forbidden") {
      throw new AppError("access.denied", "Permission check failed (/pool/forbidden, Pool.Allocate)");
    }
    return decideAnything(route, params, subject);
  },
  handlers: {
    "GET /version": () => ({ version: "9.2.11", flag: true }),
    "POST /pools": (params) => {
      if (params.poolid === "dup") {
        throw new AppError("object.exists", "create pool failed: pool 'dup' already exists");
      }
      if (params.poolid === "umlaut")
        throw new AppError("object.exists", "pool 'Bücher' exists\nsecond line");
      return null;
    },
    "GET /pools": (params) =>
      new PveReply({ data: [{ poolid: params.poolid ?? "x".repeat(3000) }], total: 7 }),
    "POST /access/ticket": () => {
      throw new AppError("auth.failed", "authentication failure");
    },
    "GET /nodes/{node}/qemu": () => {
      read.times++;
      const { version } = read;
      const rawJson = Buffer.from(`[${version}]`);
      return new PveReply({ rawJson, sameWhile: () => read.version === version });
    },
    "GET /nodes/{node}/lxc": ({ node }) => [{ name: node }],
    "GET /nodes/{node}/capabilities/qemu/migration": () => ({ "has-dbus-vmstate": false }),
    "GET /cluster/resources": () => new PveReply({ rawJson: Buffer.from('[{"id":"node/n1"}]') }),
  },
  calls: nodeCalls({
    connection: (node) =>
      node === "gone" || node === "n1"
        ? {
            node,
            call: async (call) => {
              agentCalls.push(call);
              if (node === "gone") throw new AgentUnreachable(595, "No route to host");
              if (call.decision.route.endsWith("/rrd"))
                return { data: { filename: "a.png", image: "\x89PNG\xff" } };
              const download = { contentType: "text/plain", body: tornBody() };
              return call.params["vmid"] === "666" ? { data: null, download } : { data: { ok: true } };
            },
          }
        : undefined,
  }),
  localNode: "n1",
  knowsNode: (node) => node === "n1" && read.known,
  uploads: { open: () => Promise.reject(new Error("no uploads here")) },
  fresh: async () => undefined,
  audit: async (event) => void audited.push(event),
  observe: () => undefined,
  trace: (_name, _attributes, run) => run(undefined),
  log: { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined },
  newRequestId: () => "r1",
  delay: async (ms) => void delays.push(ms),
};

let server: Server;
let port: number;

beforeAll(async () => {
  const entry = createEntry({
    isProxy: () => false,
    pve: createPveApi(fakeDeps),
    v1: async (_req, res) => void res.end("v1"),
    log: fakeDeps.log,
  });
  server = createServer({ maxHeaderSize: 8192 }, entry);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  port = (server.address() as AddressInfo).port;
});

afterAll(() => server.close());

interface Reply {
  status: number;
  reason: string;
  body: string;
  headers: IncomingMessage["headers"];
}

function call(
  method: string,
  path: string,
  options: {
    headers?: Record<string, string>;
    body?: string | Buffer;
    anonymous?: boolean;
    agent?: Agent;
  } = {},
): Promise<Reply> {
  const headers = { ...(options.anonymous ? {} : { Cookie: "PVEAuthCookie=good" }), ...options.headers };
  const length: Record<string, string> =
    options.body === undefined ? {} : { "Content-Length": String(Buffer.byteLength(options.body)) };
  return new Promise((resolve, reject) => {
    const req = request(
      { port, host: "127.0.0.1", method, path, agent: options.agent, headers: { ...length, ...headers } },
      (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (chunk: Buffer) => chunks.push(chunk));
        res.on("error", reject);
        res.on("end", () => {
          const raw = Buffer.concat(chunks);
          const body = res.headers["content-encoding"] === "gzip" ? gunzipSync(raw) : raw;
          resolve({
            status: res.statusCode ?? 0,
            reason: Buffer.from(res.statusMessage ?? "", "latin1").toString("utf8"),
            body: body.toString("utf8"),
            headers: res.headers,
          });
        });
      },
    );
    req.on("error", reject);
    req.end(options.body);
  });
}

const form = { "Content-Type": "application/x-www-form-urlencoded" };
const json = { "Content-Type": "application/json" };

test("answers again what nobody changed, and anew as soon as anything did", async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const get = async (
    path = "/api2/json/nodes/n1/qemu",
    authorization = "PVEAPIToken=good",
  ): Promise<string> => {
    const headers = { Authorization: authorization };
    const { status, body } = await call("GET", path, { anonymous: true, headers, agent });
    return `${status} ${body}`;
  };
  for (let at = 0; at < 3; at++) expect(await get()).toBe('200 {"data":[1]}');
  expect(read.times).toBe(1);
  // In another format, or asked otherwise, it is another answer.
  expect(await get("/api2/extjs/nodes/n1/qemu")).toBe('200 {"data":[1],"success":1}');
  expect(read.times).toBe(2);
  read.version = 2;
  expect(await get()).toBe('200 {"data":[2]}');
  const times = read.times;
  believed = () => true;
  expect(await get()).toBe('200 {"data":[2]}');
  expect(read.times).toBe(times);
  // The same connection, other words.
  expect(await get(undefined, "PVEAPIToken=bad")).toContain("401");
  expect(await get()).toBe('200 {"data":[2]}');
  read.known = false;
  expect(await get()).toContain("hostname lookup");
  read.known = true;
  agent.destroy();
});

test("answers in the envelope with booleans as numbers and the exact content type", async () => {
  const reply = await call("GET", "/api2/json/version");
  expect(reply).toMatchObject({ status: 200, body: '{"data":{"version":"9.2.11","flag":1}}' });
  expect(reply.headers["content-type"]).toBe("application/json;charset=UTF-8");
  expect(reply.headers["server"]).toBe("pve-api-daemon/3.0");
  expect(reply.headers["expires"]).toBe(reply.headers["date"]);
});

test("routes trailing and doubled slashes and percent-encoded separators", async () => {
  for (const path of [
    "/api2/json/version/",
    "/api2/json//version",
    "/api2//json/version",
    "/api2/json%2Fversion",
  ]) {
    expect((await call("GET", path)).status, path).toBe(200);
  }
});

test("gives SPICE viewers their file, and failures as JSON", async () => {
  const file = await call("GET", "/api2/spiceconfig/version");
  expect(file.body).toMatch(/^\[virt-viewer\]\n(\w+=.*\n)+$/);
  expect(file.headers["content-type"]).toBe("application/x-virt-viewer;charset=UTF-8");
  const failed = await call("POST", "/api2/spiceconfig/pools", { headers: form, body: "poolid=dup" });
  expect(failed.body).toContain('"data":null');
});

test("sends pictures as they are, nothing where there is none, and failures as JSON", async () => {
  const graph = "nodes/n1/rrd?ds=cpu&timeframe=hour";
  const picture = await call("GET", `/api2/png/${graph}`);
  expect(picture.headers["content-type"]).toBe("image/png");
  expect(picture.headers["content-length"]).toBe("5");
  expect(JSON.parse((await call("GET", `/api2/json/${graph}`)).body)).toEqual({
    data: { filename: "a.png", image: "\x89PNG\xff" },
  });
  expect((await call("GET", "/api2/png/version")).body).toBe("");
  expect((await call("GET", "/api2/png/nodes/gone/rrd?ds=cpu&timeframe=hour")).status).toBe(595);
});

test("answers true and false where PVE does, and 1 and 0 elsewhere", async () => {
  const migration = await call("GET", "/api2/json/nodes/n1/capabilities/qemu/migration");
  expect(migration.body).toBe('{"data":{"has-dbus-vmstate":false}}');
});

test("wraps success and failure for extjs in HTTP 200", async () => {
  expect((await call("GET", "/api2/extjs/version")).body).toBe(
    '{"data":{"version":"9.2.11","flag":1},"success":1}',
  );
  const failed = await call("POST", "/api2/extjs/pools", { headers: form, body: "poolid=dup" });
  expect(failed.status).toBe(200);
  expect(JSON.parse(failed.body)).toEqual({
    data: null,
    success: 0,
    status: 500,
    message: "create pool failed: pool 'dup' already exists\n",
  });
});

test("puts the first line of an error into the reason phrase, UTF-8 included, and closes the connection", async () => {
  const reply = await call("POST", "/api2/json/pools", { headers: form, body: "poolid=umlaut" });
  expect(reply).toMatchObject({ status: 500, reason: "pool 'Bücher' exists" });
  expect(JSON.parse(reply.body)).toEqual({ data: null, message: "pool 'Bücher' exists\nsecond line\n" });
  expect(reply.headers["connection"]).toBe("close");
});

test("answers 401 with an empty body after a delay when nobody is logged in", async () => {
  delays.length = 0;
  const reply = await call("GET", "/api2/json/version", { anonymous: true });
  expect(reply).toMatchObject({ status: 401, reason: "No ticket", body: "" });
  expect(delays).toEqual([3000]);
});

test("answers a failed login in the envelope, three seconds after its start", async () => {
  delays.length = 0;
  const reply = await call("POST", "/api2/json/access/ticket", {
    anonymous: true,
    headers: form,
    body: "username=a@pam&password=b",
  });
  expect(reply).toMatchObject({ status: 401, reason: "authentication failure" });
  expect(JSON.parse(reply.body)).toEqual({ data: null, message: "authentication failure\n" });
  expect(delays[0]).toBeGreaterThan(2500);
  expect(audited.at(-1)).toMatchObject({ user: "a@pam", statusCode: 401, params: undefined });
});

test("checks permission before parameters", async () => {
  const reply = await call("POST", "/api2/json/pools", {
    headers: form,
    body: "poolid=forbidden&nonsense=1",
  });
  expect(reply).toMatchObject({
    status: 403,
    reason: "Permission check failed (/pool/forbidden, Pool.Allocate)",
  });
});

test("audits a read only where it was denied", async () => {
  await call("GET", "/api2/json/pools/forbidden");
  expect(audited.at(-1)).toMatchObject({ verb: "GET", resource: "/pools/{poolid}", statusCode: 403 });
  await call("GET", "/api2/json/version");
  expect(audited.at(-1)).toBeUndefined();
});

test("names every bad parameter with PVE's text", async () => {
  const reply = await call("POST", "/api2/json/pools", { headers: form, body: "nonsense=1" });
  expect(reply).toMatchObject({ status: 400, reason: "Parameter verification failed." });
  expect(JSON.parse(reply.body)).toMatchObject({
    errors: {
      poolid: "property is missing and it is not optional",
      nonsense: "property is not defined in schema and the schema does not allow additional properties",
    },
  });
});

test("lets query parameters win over the body and drops the cache-buster", async () => {
  const reply = await call("POST", "/api2/json/pools?poolid=dup&_dc=123", {
    headers: json,
    body: '{"poolid":"other"}',
  });
  expect(reply.status).toBe(500);
});

test("accepts a form without content type, and an empty JSON body", async () => {
  expect((await call("POST", "/api2/json/pools", { body: "poolid=a" })).body).toBe('{"data":null}');
  expect((await call("GET", "/api2/json/version", { headers: json })).status).toBe(200);
});

test("refuses malformed JSON with 500 and other content types with 506", async () => {
  expect((await call("POST", "/api2/json/pools", { headers: json, body: "{" })).status).toBe(500);
  expect((await call("POST", "/api2/json/pools", { headers: json, body: "[1]" })).status).toBe(500);
  expect(
    (await call("POST", "/api2/json/pools", { headers: json, body: Buffer.from([0x7b, 0xff, 0x7d]) })).status,
  ).toBe(500);
  expect(
    (await call("POST", "/api2/json/pools", { headers: { "Content-Type": "text/plain" }, body: "x" })).status,
  ).toBe(506);
});

test("refuses unknown verbs, bodies on GET and DELETE, chunked bodies and too much data", async () => {
  expect(await call("PATCH", "/api2/json/version")).toMatchObject({
    status: 501,
    reason: "method 'PATCH' not available",
    body: "",
  });
  expect(await call("DELETE", "/api2/json/pools", { body: "poolid=a" })).toMatchObject({
    status: 501,
    reason: "Unexpected content for method 'DELETE'",
  });
  expect(
    await call("POST", "/api2/json/pools", { headers: { "Transfer-Encoding": "chunked" } }),
  ).toMatchObject({ status: 501, reason: "chunked transfer encoding not supported" });
  expect(
    await call("POST", "/api2/json/pools", { headers: form, body: Buffer.alloc(513 * 1024, "a") }),
  ).toMatchObject({ status: 501, reason: "for data too large" });
});

test("reads what it remembers of nodes that exist; localhost is this node", async () => {
  expect((await call("GET", "/api2/json/nodes/n1/lxc")).body).toBe('{"data":[{"name":"n1"}]}');
  expect((await call("GET", "/api2/json/nodes/localhost/lxc")).body).toBe('{"data":[{"name":"n1"}]}');
  expect(await call("GET", "/api2/json/nodes/nope/lxc")).toMatchObject({
    status: 500,
    reason: expect.stringMatching(/^hostname lookup 'nope' failed/),
  });
});

test("answers 501 for unknown paths, formats and methods in PVE's words", async () => {
  expect(await call("GET", "/api2/json/nowhere")).toMatchObject({
    status: 501,
    reason: "Method 'GET /nowhere' not implemented",
  });
  expect(await call("GET", "/api2/json/cluster/ceph/status")).toMatchObject({
    status: 501,
    reason: "Method 'GET /cluster/ceph/status' not implemented",
  });
  expect(await call("POST", "/api2/json/cluster/config/join")).toMatchObject({
    status: 501,
    reason: expect.stringMatching(/^Method .* not implemented: a machine joins by .*join-command' prints$/),
  });
  expect(await call("GET", "/api2/xml/version")).toMatchObject({
    status: 501,
    reason: "no formatter for uri /version, xml",
  });
  expect(await call("GET", "/api2/")).toMatchObject({ status: 501, reason: "no such uri" });
});

test("refuses too many header fields", async () => {
  const headers = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`X-${at}`, "1"]));
  expect((await call("GET", "/api2/json/version", { headers })).status).toBe(431);
});

test("keeps methods without allowtoken away from tokens", async () => {
  const reply = await call("PUT", "/api2/json/access/password", {
    anonymous: true,
    headers: { ...form, Authorization: "PVEAPIToken=good" },
    body: "userid=a@pve",
  });
  expect(reply).toMatchObject({
    status: 403,
    reason:
      "Permission check failed (URI '/access/password' not available with API token, need proper ticket.",
  });
});

test("cuts a download off whose source fails", async () => {
  await expect(call("GET", "/api2/json/nodes/n1/qemu/666/cloudinit")).rejects.toThrow(
    /aborted|hang up|ECONNRESET/,
  );
});

test("compresses large answers and reports the total", async () => {
  const reply = await call("GET", "/api2/json/pools", { headers: { "Accept-Encoding": "gzip" } });
  expect(reply.headers["content-encoding"]).toBe("gzip");
  expect(JSON.parse(reply.body)).toMatchObject({ total: 7 });
  expect(
    (await call("GET", "/api2/json/pools", { headers: { "Accept-Encoding": "gzip;q=0" } })).headers[
      "content-encoding"
    ],
  ).toBeUndefined();
});

test("sends bytes that are kept ready as they are", async () => {
  expect((await call("GET", "/api2/json/cluster/resources")).body).toBe('{"data":[{"id":"node/n1"}]}');
});

test("lists the children of index paths", async () => {
  const reply = JSON.parse((await call("GET", "/api2/json/access")).body) as { data: { subdir: string }[] };
  expect(reply.data.map((row) => row.subdir)).toEqual(
    expect.arrayContaining(["acl", "users", "roles", "ticket"]),
  );
  for (const path of ["/api2/json", "/api2/json/"])
    expect((await call("GET", path)).body).toContain('{"data":[{"subdir":"version"},{"subdir":"cluster"},');
});

test("refuses JSON of a hundred thousand levels with 400, and answers on", async () => {
  const bodies = [`{"comment":${"[".repeat(100_000)}${"]".repeat(100_000)}}`, '{"a":'.repeat(100_000)];
  for (const body of bodies) {
    const reply = await call("POST", "/api2/json/pools", { headers: json, body });
    expect(reply.status).toBe(400);
    expect(reply.body).toContain("nested deeper than 64 levels");
  }
  // PVE knows no YAML: whatever is in it, it is the type of the body that is refused, before it is read.
  const yaml = { ...json, "content-type": "application/yaml" };
  const flow = `comment: ${"[".repeat(100_000)}${"]".repeat(100_000)}`;
  expect((await call("POST", "/api2/json/pools", { headers: yaml, body: flow })).status).toBe(506);
  expect((await call("GET", "/api2/json/version")).status).toBe(200);
});

test("forwards node methods to their agent and shows PVE's codes when it is away", async () => {
  expect((await call("GET", "/api2/json/nodes/localhost/time")).body).toBe('{"data":{"ok":1}}');
  expect(agentCalls.at(-1)).toMatchObject({
    decision: { route: "GET /nodes/{node}/time", actor: root },
    params: { node: "n1" },
  });
  expect(await call("GET", "/api2/json/nodes/gone/time")).toMatchObject({
    status: 595,
    reason: "No route to host",
  });
  expect((await call("GET", "/api2/json/nodes/nobody/time")).reason).toMatch(
    /^hostname lookup 'nobody' failed - /,
  );
});

test("audits writes with their parameters", async () => {
  await call("POST", "/api2/json/pools", { headers: form, body: "poolid=audited" });
  expect(audited.at(-1)).toMatchObject({
    user: "root@pam",
    verb: "POST",
    resource: "/pools",
    statusCode: 200,
    params: { poolid: "audited" },
  });
});

test("reports a parameter given twice with different values", async () => {
  const reply = await call("PUT", "/api2/json/access/users/a@pve", { headers: form, body: "userid=b@pve" });
  expect(JSON.parse(reply.body)).toMatchObject({
    errors: { userid: "duplicate parameter (already defined in URI) with conflicting values!" },
  });
});

test("serves the other face, the landing page, html, and 404 elsewhere", async () => {
  expect((await call("GET", "/api/v1/nodes")).body).toBe("v1");
  expect((await call("GET", "/")).body).toContain("<h1>gpve</h1>");
  expect((await call("GET", "/api2/html/version")).body).toContain("9.2.11");
  expect((await call("GET", "/api2/htmljs/version")).headers["content-type"]).toBe("text/html;charset=UTF-8");
  expect((await call("GET", "/favicon.ico")).status).toBe(404);
});

test("survives garbage on the wire", async () => {
  const socket = connect(port, "127.0.0.1");
  const answer = await new Promise<string>((resolve) => {
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
    socket.on("close", () => resolve(text));
    socket.write("\u0000\u0001garbage\r\n\r\n");
  });
  expect(answer).toMatch(/^HTTP\/1.1 400/);
  expect((await call("GET", "/api2/json/version")).status).toBe(200);
});

test("the log of a task that a server ran is read where its UPID says, whatever node it is asked of", async () => {
  const upid = "UPID:n1:40000001:00000001:6B49D200:hamigrate:100:root@pam:";
  await call("GET", `/api2/json/nodes/gone/tasks/${upid}/log`);
  expect(agentCalls.at(-1)).toMatchObject({ params: { node: "n1", upid } });
});
