import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocketServer } from "ws";
import { GpveClient } from "./client.ts";
import { NodeTransport } from "./node-transport.ts";
import { consoleOffer } from "./pve-client.ts";
import { FakeApi } from "./testing/fake-api.ts";
import { startFakeHttpsServer, type FakeHttpsServer } from "./testing/fake-https-server.ts";

const clock = { now: () => 0, sleep: () => Promise.resolve() };
const offer = { port: 5900, ticket: "T:1", user: "root@pam" };
const sockets = new WebSocketServer({ noServer: true });

let server: FakeHttpsServer;
let client: GpveClient;
let seen: { url: string; authorization: string | undefined; protocol: string | undefined };

beforeEach(async () => {
  server = await startFakeHttpsServer(new FakeApi(), {
    onUpgrade: (req, socket, head) => {
      const { authorization, "sec-websocket-protocol": protocol } = req.headers;
      seen = { url: req.url ?? "", authorization, protocol };
      if (req.url?.startsWith("/api2/json/no") === true) {
        socket.end("HTTP/1.1 500 no console waits on port 5900\r\nContent-Length: 0\r\n\r\n");
        return;
      }
      if (req.url?.startsWith("/api/v1/virtualmachines/9") === true) {
        const body = JSON.stringify({
          code: "access.denied",
          detail: "10.0.0.1 is node n1 itself",
          status: 403,
        });
        const type = "Content-Type: application/problem+json";
        socket.end(`HTTP/1.1 403 Forbidden\r\n${type}\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
        return;
      }
      sockets.handleUpgrade(req, socket, head, (ws) => {
        ws.on("message", (data: Buffer) => {
          const text = data.toString();
          if (text === "bye") ws.close();
          else if (text === "cut") ws.terminate();
          else ws.send(Buffer.from(text.toUpperCase()));
        });
      });
    },
  });
  client = make(server.fingerprint);
});
afterEach(async () => {
  client.close();
  await server.close();
});

function make(fingerprint: string): GpveClient {
  const transport = new NodeTransport({ url: server.url, fingerprint });
  return new GpveClient({ transport, credentials: { kind: "token", token: "t" }, clock });
}

describe("a websocket", () => {
  test("carries messages with the client's trust and credentials, and ends with either side", async () => {
    const socket = await client.pve.openConsole("/x", offer);
    expect(seen).toEqual({
      url: "/api2/json/x?port=5900&vncticket=T%3A1",
      authorization: "PVEAPIToken=t",
      protocol: "binary",
    });
    await socket.send("abc");
    const heard: string[] = [];
    for await (const message of socket.messages) {
      heard.push(Buffer.from(message).toString());
      await socket.send("bye");
    }
    expect(heard).toEqual(["ABC"]);
    socket.close();
    await expect(socket.send("x")).rejects.toThrow("the connection is closed");
  });

  test("ends its reader when it is closed here", async () => {
    const socket = await client.pve.openConsole("/x", offer);
    setImmediate(() => socket.close());
    const heard: unknown[] = [];
    for await (const message of socket.messages) heard.push(message);
    expect(heard).toEqual([]);
  });

  test("is refused like any other call", async () => {
    await expect(client.pve.openConsole("/no", offer)).rejects.toThrow("no console waits on port 5900");
    const stranger = make("00".repeat(32));
    await expect(stranger.pve.openConsole("/x", offer)).rejects.toThrow("not the pinned one");
    stranger.close();
    const signal = AbortSignal.abort();
    await expect(client.pve.openConsole("/x", offer, { signal })).rejects.toMatchObject({
      code: "operation.cancelled",
    });
  });

  test("is a line to a port of a VM, or refused in the words of our own face", async () => {
    const line = await client.v1.openTunnel(100, 50_000, { address: "10.0.0.7" });
    expect(seen.url).toBe("/api/v1/virtualmachines/100/tunnel?port=50000&address=10.0.0.7");
    line.close();
    await expect(client.v1.openTunnel(900, 80)).rejects.toMatchObject({
      code: "access.denied",
      message: "10.0.0.1 is node n1 itself",
    });
  });

  test("needs a transport that has them", async () => {
    const api = { origin: "https://x", send: () => Promise.reject(new Error()), close: () => undefined };
    const plain = new GpveClient({ transport: api, credentials: { kind: "anonymous" }, clock });
    await expect(plain.pve.openConsole("/x", offer)).rejects.toThrow("cannot open consoles");
  });
});

test("an offer of a console is read, or refused", () => {
  expect(consoleOffer({ port: "5901", ticket: "t", user: "u", password: "p", upid: "x" })).toEqual({
    port: 5901,
    ticket: "t",
    user: "u",
    password: "p",
  });
  expect(() => consoleOffer({ ticket: "t" })).toThrow("is not one");
});
