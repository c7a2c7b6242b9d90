import { nodeCalls } from "../../testing/node-calls.ts";
import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { makeTestCertificate } from "../../testing/test-certificate.ts";
import { createSpiceHandlers, spiceSubject } from "../http/console/spice-handlers.ts";
import { listenForSpice, SPICE_LIMITS, type SpiceProxy } from "./spice-proxy.ts";

const silent = () => undefined;
const log = {
  debug: silent,
  info: ({ err }: { err: string }, text: string) => void logged.push([text, err]),
  warn: silent,
  error: silent,
};
const CONNECT = "CONNECT a:ticket:61000 HTTP/1.0\r\n\r\n";
const quick = { ...SPICE_LIMITS, strangers: { ...SPICE_LIMITS.strangers, handshakeMs: 400 } };

let certificate: { readonly cert: string; readonly key: string };
let proxy: SpiceProxy;
let failure: Error | undefined;
let asked: unknown[];
let logged: (readonly [string, string])[];

/** Repeats what it hears, and ends at "q". */
const agent = new FakeAgent({
  answer: (call) => {
    asked.push(call);
    return { data: { password: "secret", title: "VM 100 - web" } };
  },
  open: (request, input) => {
    asked.push(request);
    if (failure !== undefined) throw failure;
    return {
      opened: { kind: "spice" },
      output: (async function* () {
        for await (const chunk of input) {
          yield chunk;
          if (Buffer.from(chunk).includes("q")) return;
        }
      })(),
    };
  },
});

beforeEach(async () => {
  failure = undefined;
  asked = [];
  logged = [];
  certificate = await makeTestCertificate();
  proxy = await listenForSpice({ ...options(), port: 0 });
});
afterEach(() => proxy.close());

function options() {
  return {
    host: "127.0.0.1",
    nodeName: "n1",
    certificate: () => certificate,
    calls: nodeCalls({ connection: (node: string) => (node === "n1" ? agent : undefined) }),
    verify: (ticket: string) =>
      ticket === "a:ticket"
        ? { vmid: 100, node: "n1" }
        : ticket === "far"
          ? { vmid: 1, node: "n9" }
          : undefined,
    newRequestId: () => "r1",
    log,
  } as unknown as Parameters<typeof listenForSpice>[0];
}

/** What the proxy answers first, and the connection it leaves. */
async function dial(request: string): Promise<{ answer: string; socket: Socket }> {
  const socket = connectTcp(proxy.address.port, "127.0.0.1");
  socket.write(request);
  const answer = await new Promise<string>((resolve) =>
    socket.once("data", (data) => resolve(data.toString())),
  );
  return { answer, socket };
}

describe("the SPICE proxy", () => {
  test("is called by its address, or by its node's name where it listens everywhere", async () => {
    const { port } = proxy.address;
    expect(proxy.reach).toEqual({ host: "127.0.0.1", port });
    const everywhere = await listenForSpice({ ...options(), host: "0.0.0.0", port });
    expect(everywhere.reach.host).toBe("n1");
    expect(everywhere.reach.port).not.toBe(port);
    await everywhere.close();
  });

  test("joins whoever has a ticket to the VM, inside TLS", async () => {
    const { answer, socket } = await dial("CONNECT a:ticket:61000 HTTP/1.0\r\n\r\n");
    expect(answer).toBe("HTTP/1.0 200 OK\r\n\r\n");
    const secure = connectTls({ socket, ca: certificate.cert, checkServerIdentity: () => undefined });
    let heard = "";
    secure.on("data", (data: Buffer) => (heard += data.toString()));
    secure.write("REDQ");
    await expect.poll(() => heard).toBe("REDQ");
    expect(asked).toMatchObject([
      {
        decision: {
          route: "TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice",
          work: "spice-viewer",
          actor: undefined,
        },
        params: { vmid: 100 },
      },
    ]);
    const ended = new Promise((resolve) => secure.once("end", resolve));
    secure.write("q");
    await ended;
    secure.destroy();
  });

  test("refuses other tickets, nodes it does not know, and everything that is no CONNECT", async () => {
    const refused = "HTTP/1.0 401 invalid ticket\r\nConnection: close\r\n\r\n";
    for (const target of ["example.org:443", "far:61000", ""])
      expect((await dial(`CONNECT ${target} HTTP/1.1\r\nHost: x\r\n\r\n`)).answer).toMatch(/ 40[01] /);
    expect((await dial("CONNECT example.org:443 HTTP/1.0\r\n\r\n")).answer).toBe(refused);
    expect((await dial("GET http://example.org/ HTTP/1.0\r\n\r\n")).answer).toContain("501 Not Implemented");
    expect(asked).toEqual([]);
  });

  test("closes when the node refuses, and says why in its log", async () => {
    failure = new AppError("object.conflict", "VM 100 not running");
    const { socket } = await dial(CONNECT);
    const secure = connectTls({ socket, ca: certificate.cert, checkServerIdentity: () => undefined });
    secure.resume();
    await new Promise((resolve) => secure.once("end", resolve));
    expect(asked).toHaveLength(1);
    expect(logged).toEqual([["a SPICE viewer was sent away", "VM 100 not running"]]);
    secure.destroy();
  });

  test("does not bother a guest before the viewer's handshake is done", async () => {
    const { socket } = await dial(CONNECT);
    socket.destroy();
    await expect.poll(() => logged).toHaveLength(1);
    expect(asked).toEqual([]);
  });

  test.each([
    ["says nothing", "", ""],
    ["never finishes its request", "CONNECT a:tick", ""],
    ["never begins TLS", CONNECT, ""],
    ["never finishes TLS", CONNECT, "\x16\x03\x01\x02\x00\x01"],
    ["was refused and stays", "CONNECT example.org:443 HTTP/1.0\r\n\r\n", ""],
  ])("ends whoever %s, however it trickles in", async (_name, request, then) => {
    await proxy.close();
    proxy = await listenForSpice({ ...options(), port: 0, limits: quick });
    const socket = connectTcp({ port: proxy.address.port, host: "127.0.0.1", allowHalfOpen: request !== "" });
    const begun = Date.now();
    const closed = new Promise<number>((resolve) => socket.once("close", () => resolve(Date.now() - begun)));
    socket.on("error", silent);
    socket.write(request);
    if (request.includes("\r\n")) await new Promise((resolve) => socket.once("data", resolve));
    socket.resume();
    socket.write(then);
    const drip = setInterval(() => request !== "" && socket.write("x"), 50);
    const lasted = await closed;
    clearInterval(drip);
    expect(lasted).toBeLessThan(4_000);
    expect(asked).toEqual([]);
  });

  test("lets an address have so many connections that have shown nothing", async () => {
    await proxy.close();
    const limits = { ...SPICE_LIMITS, strangers: { ...SPICE_LIMITS.strangers, perAddress: 2, graceMs: 0 } };
    proxy = await listenForSpice({ ...options(), port: 0, limits });
    const viewer = await dial(CONNECT);
    const secure = connectTls({
      socket: viewer.socket,
      ca: certificate.cert,
      checkServerIdentity: () => undefined,
    });
    secure.write("A");
    await new Promise((resolve) => secure.once("data", resolve));
    const silentOnes = Array.from({ length: 3 }, () => connectTcp(proxy.address.port, "127.0.0.1"));
    let gone = 0;
    for (const each of silentOnes) each.on("error", silent).on("close", () => (gone += 1));
    await expect.poll(() => gone, { timeout: 10_000 }).toBe(1);
    secure.write("B");
    const [echo] = (await once(secure, "data")) as [Buffer];
    expect(echo.toString()).toBe("B");
    for (const each of [secure, ...silentOnes]) each.destroy();
  });

  test("lets a guest have so many connections", async () => {
    await proxy.close();
    proxy = await listenForSpice({ ...options(), port: 0, limits: { ...SPICE_LIMITS, perGuest: 2 } });
    const first = await dial(CONNECT);
    const second = await dial(CONNECT);
    expect((await dial(CONNECT)).answer).toContain("503 too many connections to this guest");
    first.socket.destroy();
    await expect
      .poll(async () => (await dial(CONNECT)).answer, { timeout: 10_000 })
      .toBe("HTTP/1.0 200 OK\r\n\r\n");
    second.socket.destroy();
  });

  test("takes another port where its own is in use", async () => {
    const other = await listenForSpice({ ...options(), port: proxy.address.port });
    expect(other.address.port).not.toBe(proxy.address.port);
    await other.close();
    await expect(listenForSpice({ ...options(), host: "192.0.2.1", port: 0 })).rejects.toThrow(
      "EADDRNOTAVAIL",
    );
  });
});

describe("POST spiceproxy", () => {
  const ctx = { actor: undefined, requestId: "r", clientAddress: "", signal: new AbortController().signal };
  const ask = (params: object, listening: { host: string; port: number } | undefined) =>
    createSpiceHandlers({
      calls: nodeCalls({ connection: () => agent }),
      localNode: "n1",
      tickets: { issueSpice: (vmid, node) => `pvespiceproxy:${vmid}:${node}`, verifySpice: () => undefined },
      certificate: () => certificate.cert,
      caPem: () => "-----BEGIN\nA\n-----END\n",
      proxy: () => listening,
    })["POST /nodes/{node}/qemu/{vmid}/spiceproxy"]?.(
      { node: "localhost", vmid: 100, ...params },
      ctx as unknown as RequestContext,
    );

  test("answers what a viewer's connection file has", async () => {
    expect(await ask({}, { host: "::1", port: 3128 })).toEqual({
      type: "spice",
      title: "VM 100 - web",
      host: "pvespiceproxy:100:n1",
      proxy: "http://[::1]:3128",
      "tls-port": 61000,
      "host-subject": spiceSubject(certificate.cert),
      ca: "-----BEGIN\\nA\\n-----END\\n",
      password: "secret",
      "delete-this-file": 1,
      "secure-attention": "Ctrl+Alt+Ins",
      "toggle-fullscreen": "Shift+F11",
      "release-cursor": "Ctrl+Alt+R",
    });
    expect(spiceSubject(certificate.cert)).toBe("CN=localhost");
    expect(await ask({ proxy: "cloud.example" }, { host: "x", port: 9 })).toMatchObject({
      proxy: "http://cloud.example:9",
    });
    await expect(Promise.resolve(ask({}, undefined))).rejects.toThrow("switched off");
  });
});
