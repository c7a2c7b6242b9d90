import { given } from "@gpve/contracts/given.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { NodeTransport } from "./node-transport.ts";
import { FakeApi } from "./testing/fake-api.ts";
import { type FakeHttpsServer, startFakeHttpsServer } from "./testing/fake-https-server.ts";

let api: FakeApi;
let server: FakeHttpsServer;

beforeEach(async () => {
  api = new FakeApi().pve("GET /version", { version: "9.2" });
  server = await startFakeHttpsServer(api);
});
afterEach(() => server.close());

const ask = { method: "GET", path: "/api2/json/version", headers: {} } as const;

describe("trust", () => {
  test("accepts the pinned certificate, with or without colons", async () => {
    for (const fingerprint of [server.fingerprint, server.fingerprint.replaceAll(":", "").toLowerCase()]) {
      const transport = new NodeTransport({ url: server.url, fingerprint });
      const response = await transport.send(ask);
      expect(response.status).toBe(200);
      expect(JSON.parse(await response.text())).toEqual({ data: { version: "9.2" } });
      transport.close();
    }
  });

  test("accepts a certificate signed by the given CA", async () => {
    for (const url of [server.url, `https://localhost:${server.port}`]) {
      const transport = new NodeTransport({ url, ca: server.certificatePem });
      expect((await transport.send(ask)).status).toBe(200);
      transport.close();
    }
  });

  test("a pinned fingerprint is the only one: no CA makes up for another certificate", async () => {
    const pinned = new NodeTransport({
      url: server.url,
      ca: server.certificatePem,
      fingerprint: "00".repeat(32),
    });
    await expect(pinned.send(ask)).rejects.toThrow(/not the pinned one/);
    pinned.close();
    expect(api.requests).toEqual([]);
  });

  test("sends nothing to a server whose certificate is neither pinned nor signed by the CA", async () => {
    const wrong = "00".repeat(32);
    const pinned = new NodeTransport({ url: server.url, fingerprint: wrong });
    await expect(pinned.send(ask)).rejects.toMatchObject({
      code: "node.unavailable",
      message: expect.stringContaining("not the pinned one"),
      data: { untrusted: true, fingerprint: server.fingerprint },
    });
    const system = new NodeTransport({ url: server.url });
    await expect(system.send(ask)).rejects.toThrow(/not trusted/);
    expect(api.requests).toEqual([]);
  });

  test("refuses URLs that are not https and fingerprints that are not SHA-256", () => {
    expect(() => new NodeTransport({ url: "http://x:8006" })).toThrow(/must start with https/);
    expect(() => new NodeTransport({ url: "nonsense" })).toThrow(/is not a URL/);
    expect(() => new NodeTransport({ url: "https://x", fingerprint: "AB:CD" })).toThrow(/64 hex digits/);
  });
});

describe("requests", () => {
  const connect = (timeoutMs?: number): NodeTransport =>
    new NodeTransport({
      url: server.url,
      fingerprint: server.fingerprint,
      ...given({ timeoutMs }),
    });

  test("keeps one connection for reads and opens a new one for each write", async () => {
    api.pve("POST /pools", null);
    const transport = connect();
    for (let i = 0; i < 3; i += 1) await (await transport.send(ask)).text();
    expect(server.connections()).toBe(1);
    const write = { method: "POST", path: "/api2/json/pools", headers: {}, body: "poolid=p1" } as const;
    await (await transport.send(write)).text();
    await (await transport.send(write)).text();
    expect(server.connections()).toBe(3);
    expect(api.last("POST /api2/json/pools").form.get("poolid")).toBe("p1");
    transport.close();
  });

  test("reads the reason phrase as UTF-8", async () => {
    api.on("GET /api2/json/version", { status: 500, reason: "Größe fehlt ✓" });
    const transport = connect();
    expect((await transport.send(ask)).reason).toBe("Größe fehlt ✓");
    transport.close();
  });

  test("gives up after the timeout with request.timeout", async () => {
    api.on("GET /api2/json/version", () => new Promise(() => undefined));
    const transport = connect(80);
    await expect(transport.send(ask)).rejects.toMatchObject({ code: "request.timeout" });
    transport.close();
  });

  test("stops when the signal aborts", async () => {
    api.on("GET /api2/json/version", () => new Promise(() => undefined));
    const transport = connect();
    const abort = new AbortController();
    setTimeout(() => abort.abort(), 30);
    await expect(transport.send({ ...ask, signal: abort.signal })).rejects.toMatchObject({
      code: "operation.cancelled",
    });
    transport.close();
  });

  test("names the address when nobody listens", async () => {
    await server.close();
    const transport = connect();
    await expect(transport.send(ask)).rejects.toMatchObject({
      code: "node.unavailable",
      message: `cannot reach ${server.url}: connection refused`,
    });
    transport.close();
    const nowhere = new NodeTransport({ url: "https://no-such-host.invalid:1" });
    await expect(nowhere.send(ask)).rejects.toThrow(/cannot reach https:\/\/no-such-host.invalid:1: /);
  });

  test("repeats a read, or a write with an idempotency key, that met a connection being closed", async () => {
    const strict = await startFakeHttpsServer(api, { requestsPerConnection: 1 });
    api.on("POST /api/v1/tenants", { status: 201, body: {} });
    const transport = new NodeTransport({ url: strict.url, fingerprint: strict.fingerprint });
    for (let i = 0; i < 4; i += 1) {
      const response = await transport.send(ask);
      expect(response.status).toBe(200);
      await response.text();
    }
    const keyed = { "idempotency-key": "k" };
    for (let i = 0; i < 3; i += 1) {
      const write = { method: "POST", path: "/api/v1/tenants", headers: keyed, body: "{}" } as const;
      const response = await transport.send(write);
      expect(response.status).toBe(201);
      await response.text();
    }
    transport.close();
    await strict.close();
  });

  test("a server that went away is an error, also for a connection that was kept", async () => {
    const transport = connect();
    await (await transport.send(ask)).text();
    await server.close();
    await expect(transport.send(ask)).rejects.toMatchObject({ code: "node.unavailable" });
    transport.close();
  });

  test("tells of an answer that breaks off", async () => {
    const cut = Promise.withResolvers<void>();
    api.on("GET /api2/json/version", {
      stream: (async function* () {
        yield "{";
        await cut.promise;
        yield "}";
      })(),
    });
    const transport = connect();
    const response = await transport.send(ask);
    await server.close();
    cut.resolve();
    await expect(response.text()).rejects.toMatchObject({ code: "node.unavailable" });
    transport.close();
  });
});

test("sends a body of known length while it is read, and tells when reading fails", async () => {
  api.pve("POST /x", null);
  const transport = new NodeTransport({ url: server.url, fingerprint: server.fingerprint });
  const send = (open: () => AsyncIterable<Uint8Array>): Promise<unknown> =>
    transport.send({ method: "POST", path: "/api2/json/x", headers: {}, body: { length: 4, open } });
  await send(async function* whole() {
    yield Buffer.from("ab");
    yield Buffer.from("cd");
  });
  const asked = api.last("POST /api2/json/x");
  expect([asked.body, asked.headers["content-length"]]).toEqual(["abcd", "4"]);
  const broken = send(async function* broken() {
    yield Buffer.from("ab");
    throw new Error("disk trouble");
  });
  await expect(broken).rejects.toMatchObject({ code: "node.unavailable" });
  transport.close();
});
