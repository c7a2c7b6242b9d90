import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import { connect as connectH2 } from "node:http2";
import { Agent, request } from "node:https";
import { connect as connectTcp } from "node:net";
import { Duplex } from "node:stream";
import { connect as connectTls } from "node:tls";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeTestCertificate } from "../../testing/test-certificate.ts";
import { listen, STRANGER_LIMITS, type Listener } from "./listener.ts";

let listener: Listener;
let ca: string;

beforeAll(async () => {
  const certificate = await makeTestCertificate();
  ca = certificate.cert;
  listener = await listen({
    host: "127.0.0.1",
    port: 0,
    certificate,
    agentCertificate: certificate,
    agentCa: certificate.cert,
    onRequest: (req, res) => res.end(`${req.httpVersion} ${req.url}`),
    onUpgrade: (_req, socket) => socket.destroy(),
    isAgent: () => false,
    isProxy: () => false,
    onAgentRequest: (req, res) => res.end(`agent ${req.httpVersion}`),
    passOn: (name) =>
      name === "trio.default.vc.gpve"
        ? (socket, first) => {
            socket.write(`${first[0]} of ${first.length > 100 ? "a whole" : "half a"} hello, then `);
            socket.pipe(socket);
          }
        : undefined,
  });
});

afterAll(() => listener.close());

const get = (options: { ALPNProtocols?: string[]; path?: string; agent?: Agent }): Promise<string> =>
  new Promise((resolve, reject) => {
    const req = request(
      { host: "127.0.0.1", port: listener.address.port, ca, servername: "localhost", path: "/x", ...options },
      (res) => void read(res).then(resolve, reject),
    );
    req.on("error", reject);
    req.end();
  });

async function read(res: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of res) text += String(chunk);
  return text;
}

test("hands on, unread, who asks for somebody else by name", async () => {
  const tcp = connectTcp({ host: "127.0.0.1", port: listener.address.port });
  let heard = "";
  tcp.on("data", (chunk: Buffer) => (heard += chunk.toString()));
  // No TLS comes back: what it says is not what the other end hears.
  const pipe = new Duplex({
    read: () => undefined,
    write: (chunk: Buffer, _encoding, done) => void tcp.write(chunk, () => done()),
  });
  const tls = connectTls({ socket: pipe, servername: "Trio.default.vc.gpve" });
  tls.on("error", () => tls.destroy());
  await expect.poll(() => heard, { timeout: 10_000 }).toBe("22 of a whole hello, then ");
  tcp.write("more");
  await expect.poll(() => heard, { timeout: 10_000 }).toBe("22 of a whole hello, then more");
  tls.destroy();
  tcp.destroy();
});

test("gives HTTP/1.1 to clients that offer nothing, and to those that offer both", async () => {
  expect(await get({ agent: new Agent() })).toBe("1.1 /x");
  const socket = connectTls({
    host: "127.0.0.1",
    port: listener.address.port,
    ca,
    servername: "localhost",
    ALPNProtocols: ["h2", "http/1.1"],
  });
  await new Promise<void>((resolve) => socket.once("secureConnect", resolve));
  expect(socket.alpnProtocol).toBe("http/1.1");
  socket.destroy();
});

test("gives h2 to those who offer nothing else, and asks them for a certificate", async () => {
  const session = connectH2(`https://127.0.0.1:${listener.address.port}`, {
    ca,
    servername: "localhost",
    ALPNProtocols: ["h2"],
  });
  const stream = session.request({ ":path": "/gpve" });
  let text = "";
  for await (const chunk of stream) text += String(chunk);
  expect(text).toBe("agent 2.0");
  session.close();
});

test("redirects plain HTTP and keeps the method of writes", async () => {
  const plain = (
    method: string,
  ): Promise<{ status: number | undefined; location: string | undefined; reason: string | undefined }> =>
    new Promise((resolve, reject) => {
      const req = httpRequest(
        { host: "127.0.0.1", port: listener.address.port, method, path: "/api2/json/version" },
        (res) => {
          res.resume();
          resolve({ status: res.statusCode, location: res.headers.location, reason: res.statusMessage });
        },
      );
      req.on("error", reject);
      req.end();
    });
  const location = `https://127.0.0.1:${listener.address.port}/api2/json/version`;
  expect(await plain("GET")).toMatchObject({ status: 301, location });
  expect(await plain("PUT")).toMatchObject({ status: 308, location });
  expect(await plain("HEAD")).toMatchObject({ status: 501, reason: "method 'HEAD' not available" });
});

test("answers what is no HTTP, and takes a hello that arrives byte by byte", async () => {
  const text = await new Promise<string>((resolve) => {
    const socket = connectTcp(listener.address.port, "127.0.0.1");
    let got = "";
    socket.on("data", (chunk: Buffer) => (got += chunk.toString("latin1")));
    socket.on("close", () => resolve(got));
    socket.write("GET / HTTP/3.7\r\n\r\n");
  });
  expect(text).toMatch(/^HTTP\/1.1 (506|400)/);
  const hello = await new Promise<Buffer>((resolve) => {
    const relay = connectTls({ socket: new CapturingDuplex(resolve), servername: "localhost" });
    relay.on("error", () => undefined);
  });
  const slow = connectTcp(listener.address.port, "127.0.0.1");
  const first = new Promise<number>((resolve) =>
    slow.once("data", (chunk: Buffer) => resolve(chunk[0] ?? 0)),
  );
  slow.setNoDelay(true);
  for (let at = 0; at < hello.length; at += 64) {
    slow.write(hello.subarray(at, at + 64));
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  expect(await first).toBe(22); // a TLS handshake record: the server hello
  slow.destroy();
});

test("lets requests that are under way end when it stops, and waits for no stream", async () => {
  const held: ServerResponse[] = [];
  const certificate = await makeTestCertificate();
  const stopping = await listen({
    host: "127.0.0.1",
    port: 0,
    certificate,
    agentCertificate: certificate,
    agentCa: certificate.cert,
    onRequest: (req, res) => {
      if (req.url === "/stream") res.write("begun");
      held.push(res);
    },
    onUpgrade: (_req, socket) => socket.destroy(),
    isAgent: () => false,
    passOn: () => undefined,
    isProxy: () => false,
    onAgentRequest: (_req, res) => res.end(),
  });
  const ask = (path: string): Promise<string> =>
    new Promise((resolve, reject) => {
      const { port } = stopping.address;
      const options = { host: "127.0.0.1", port, ca: certificate.cert, servername: "localhost", path };
      const req = request(options, (res) => {
        res.on("error", reject);
        void read(res).then(resolve, reject);
      });
      req.on("error", reject);
      req.end();
    });
  const [slow, stream] = [ask("/slow"), ask("/stream").catch(() => "cut")];
  await expect.poll(() => held.length).toBe(2);
  const closed = stopping.close();
  await expect(ask("/late")).rejects.toThrow(/ECONNREFUSED/);
  for (const res of held) if (!res.headersSent) res.end("answered");
  expect(await slow).toBe("answered");
  expect(await stream).toBe("cut");
  await closed;
});

test("drops a client that hangs up in the middle of its hello without harm", async () => {
  const socket = connectTcp(listener.address.port, "127.0.0.1");
  socket.write(Buffer.from([22, 3, 1, 2, 0, 1]));
  await new Promise((resolve) => setTimeout(resolve, 20));
  socket.destroy();
  expect(await get({ agent: new Agent() })).toBe("1.1 /x");
});

test("ends a client that never finishes the head of its request", async () => {
  const certificate = await makeTestCertificate();
  const impatient = await listen({
    host: "127.0.0.1",
    port: 0,
    certificate,
    agentCertificate: certificate,
    agentCa: certificate.cert,
    onRequest: (_req, res) => res.end(),
    onUpgrade: () => undefined,
    isAgent: () => false,
    passOn: () => undefined,
    isProxy: () => false,
    onAgentRequest: () => undefined,
    headersTimeoutMs: 200,
  });
  const slow = connectTls({
    port: impatient.address.port,
    host: "127.0.0.1",
    ca: certificate.cert,
    servername: "localhost",
  });
  let text = "";
  slow.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  slow.write("GET /x HTTP/1.1\r\nX-Slow: ");
  const drip = setInterval(() => slow.write("x"), 20);
  slow.on("error", () => undefined);
  await new Promise((resolve) => slow.once("close", resolve));
  clearInterval(drip);
  expect(text).toMatch(/^HTTP\/1.1 408 /);
  await impatient.close();
});

test.each([
  ["says nothing", ""],
  ["never finishes its hello", "\x16\x03\x01\x02\x00\x01"],
])("ends a client that %s, however it trickles in", async (_name, bytes) => {
  const certificate = await makeTestCertificate();
  const impatient = await listen({
    host: "127.0.0.1",
    port: 0,
    certificate,
    agentCertificate: certificate,
    agentCa: certificate.cert,
    onRequest: (_req, res) => res.end(),
    onUpgrade: () => undefined,
    isAgent: () => false,
    passOn: () => undefined,
    isProxy: () => false,
    onAgentRequest: () => undefined,
    strangers: { ...STRANGER_LIMITS, handshakeMs: 300 },
  });
  const slow = connectTcp(impatient.address.port, "127.0.0.1").on("error", () => undefined);
  const begun = Date.now();
  slow.write(bytes);
  const drip = setInterval(() => bytes !== "" && slow.write("\0"), 20);
  await new Promise((resolve) => slow.resume().once("close", resolve));
  clearInterval(drip);
  expect(Date.now() - begun).toBeLessThan(10_000);
  await impatient.close();
});

test("refuses a taken port with words that help", async () => {
  const certificate = await makeTestCertificate();
  const options = {
    host: "127.0.0.1",
    port: listener.address.port,
    certificate,
    agentCertificate: certificate,
    agentCa: certificate.cert,
  };
  const handlers = {
    passOn: () => undefined,
    onRequest: () => undefined,
    onUpgrade: () => undefined,
    onAgentRequest: () => undefined,
  };
  const ignored = { ...handlers, isAgent: () => false, isProxy: () => false };
  await expect(listen({ ...options, ...ignored })).rejects.toThrow(/--listen ADDR:PORT/);
});

/** Stands in for a network: hands over the first flight a TLS client writes. */
class CapturingDuplex extends Duplex {
  readonly #done: (bytes: Buffer) => void;

  constructor(done: (bytes: Buffer) => void) {
    super();
    this.#done = done;
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, callback: () => void): void {
    this.#done(chunk);
    callback();
  }
}
