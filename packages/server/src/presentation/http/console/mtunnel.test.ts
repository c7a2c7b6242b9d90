import { decideAnything } from "@gpve/domain/access/testing/decided.ts";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket } from "ws";
import { AppError } from "@gpve/contracts/errors.ts";
import type { TunnelRequest } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { nodeCalls } from "../../../testing/node-calls.ts";
import { createMtunnelHandlers, createMtunnelUpgrade, isMtunnelUpgrade } from "./mtunnel.ts";

const actor = { userid: "root@pam", authid: "root@pam!m", tokenid: "m" };
const silent = () => undefined;
const log = { debug: silent, info: silent, warn: silent, error: silent };
const PATH = "/api2/json/nodes/localhost/qemu/100/mtunnelwebsocket?socket=s.lead&ticket=secret";

let server: Server;
let opened: TunnelRequest[];
let failure: Error | undefined;
const agent = new FakeAgent({
  answer: () => ({ data: { upid: "UPID:x", socket: "s", ticket: "secret" } }),
  open: (request, input) => {
    opened.push(request);
    if (failure !== undefined) throw failure;
    return { opened: { kind: "mtunnel" }, output: shout(input) };
  },
});
const calls = nodeCalls({ connection: (node) => (node === "n1" ? agent : undefined) });

/** Sends back what it gets, in capitals, and ends at "q". */
async function* shout(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) {
    const text = Buffer.from(chunk).toString();
    yield Buffer.from(text.toUpperCase());
    if (text.includes("q")) return;
  }
}

beforeEach(async () => {
  [opened, failure] = [[], undefined];
  const upgrade = createMtunnelUpgrade({
    authenticate: ({ authorization }) => {
      if (authorization === undefined) throw new AppError("auth.required", "No ticket");
      return Promise.resolve({ actor, via: "token" as const });
    },
    decide: (route, params, subject) => decideAnything(route, params, subject),
    accessOf: () => ({ privileges: () => new Map(), has: () => true, require: silent }),
    calls,
    localNode: "n1",
    log,
    newRequestId: () => "r1",
    isProxy: () => false,
  });
  server = createServer();
  server.on("upgrade", (req, socket, head) => upgrade(req, socket as Socket, head));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const dial = (path = PATH, headers: Record<string, string> = { authorization: "x" }): WebSocket => {
  const { port } = server.address() as AddressInfo;
  return new WebSocket(`ws://127.0.0.1:${port}${path}`, ["binary"], { headers });
};
const outcome = (socket: WebSocket): Promise<string> =>
  new Promise((resolve) => {
    socket.on("error", silent);
    socket.on("unexpected-response", (_req, res) => {
      resolve(`${res.statusCode} ${res.statusMessage}`);
      socket.terminate();
    });
    socket.on("open", () => resolve("open"));
  });

test("a line is joined to the node's, both ways, until it ends", async () => {
  const socket = dial();
  const said: string[] = [];
  socket.on("message", (data: Buffer) => said.push(data.toString()));
  const closed = new Promise((resolve) => socket.once("close", resolve));
  expect(await outcome(socket)).toBe("open");
  socket.send(Buffer.from("abc"));
  await expect.poll(() => said.join("")).toBe("ABC");
  socket.send(Buffer.from("q"));
  await closed;
  expect(said.join("")).toBe("ABCQ");
  expect(opened).toMatchObject([{ params: { vmid: 100, socket: "s.lead", ticket: "secret" } }]);
});

test("nobody comes in without a token, or where the node refuses", async () => {
  expect(await outcome(dial(PATH, {}))).toContain("401");
  expect(opened).toEqual([]);
  expect(await outcome(dial(PATH.replace("&ticket=secret", "")))).toContain("400");
  failure = new AppError("access.denied", "no such line");
  expect(await outcome(dial())).toContain("403");
});

test("other websockets are none of its business", () => {
  const about = (url: string): boolean => isMtunnelUpgrade({ url } as Parameters<typeof isMtunnelUpgrade>[0]);
  expect(about(PATH)).toBe(true);
  expect(about("/api2/json/nodes/localhost/qemu/100/vncwebsocket?port=1")).toBe(false);
  expect(about("/nothing")).toBe(false);
});

test("whoever asks for a line is offered the node's", async () => {
  const handlers = createMtunnelHandlers({ calls });
  const access = { privileges: () => new Map(), has: () => true, require: silent };
  const signal = new AbortController().signal;
  const ctx = { actor, access, requestId: "r", clientAddress: "", signal, log } as RequestContext;
  const offer = handlers["POST /nodes/{node}/qemu/{vmid}/mtunnel"];
  const asked = { node: "n1", vmid: 100, storages: "a,b", bridges: "vmbr0" };
  expect(await offer?.(asked, ctx)).toEqual({ upid: "UPID:x", socket: "s", ticket: "secret" });
  const plain = handlers["GET /nodes/{node}/qemu/{vmid}/mtunnelwebsocket"];
  expect(await plain?.({ node: "n1", vmid: 100, socket: "s", ticket: "t" }, ctx)).toEqual({ socket: "s" });
});
