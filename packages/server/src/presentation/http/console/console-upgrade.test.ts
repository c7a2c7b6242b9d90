import { decideAnything } from "@gpve/domain/access/testing/decided.ts";
import { nodeCalls } from "../../../testing/node-calls.ts";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { AppError } from "@gpve/contracts/errors.ts";
import type { TunnelRequest } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { createConsoleHandlers } from "./console-handlers.ts";
import { createConsoleUpgrade, type ConsoleUpgradeDeps } from "./console-upgrade.ts";

const actor = { userid: "joe@pve", authid: "joe@pve" };
const silent = () => undefined;
const log = { debug: silent, info: silent, warn: silent, error: silent };
const VALID = "PVEVNC:1::a";

let server: Server;
let opened: TunnelRequest[];
/** Where whoever logs in is said to come from. */
let cameFrom: string[];
let kind: string;
let failure: Error | undefined;
let ended: Promise<void>;
let agent: FakeAgent;

/** A console that sends back what it gets, in capitals, and ends at "q". */
async function* shout(input: AsyncIterable<Uint8Array>, onEnd: () => void): AsyncGenerator<Uint8Array> {
  try {
    for await (const chunk of input) {
      const text = Buffer.from(chunk).toString();
      yield Buffer.from(text.toUpperCase());
      if (text.includes("q")) return;
    }
  } finally {
    onEnd();
  }
}

const tickets = {
  issueVnc: () => Promise.resolve(VALID),
  verifyVnc: (ticket: string, authid: string, path: string, port?: number) =>
    ticket === VALID && authid === "joe@pve" && ["/vms/100", "/nodes/n1"].includes(path) && port === 5900,
};

beforeEach(async () => {
  opened = [];
  cameFrom = [];
  kind = "vnc";
  failure = undefined;
  const end = Promise.withResolvers<void>();
  ended = end.promise;
  agent = new FakeAgent({
    answer: ({ params }) => ({
      data: { port: 5900, upid: `UPID:${String(params["kind"])}`, password: "12345678" },
    }),
    open: (request, input) => {
      opened.push(request);
      if (failure !== undefined) throw failure;
      return { opened: { kind }, output: shout(input, end.resolve) };
    },
  });
  const deps: ConsoleUpgradeDeps = {
    authenticate: ({ authorization, clientAddress }) => {
      cameFrom.push(clientAddress);
      if (authorization === undefined) throw new AppError("auth.required", "No ticket");
      return Promise.resolve({ actor, via: "ticket" as const });
    },
    decide: (route, params, subject) => {
      if (params["vmid"] === "101") throw new AppError("access.denied", "Permission check failed");
      return decideAnything(route, params, subject);
    },
    accessOf: () => ({ privileges: () => new Map(), has: () => true, require: silent }),
    calls: nodeCalls({ connection: (node) => (node === "n1" ? agent : undefined) }),
    localNode: "n1",
    log,
    newRequestId: () => "r1",
    tickets,
    isProxy: (address) => address === "127.0.0.1",
  };
  server = createServer();
  const upgrade = createConsoleUpgrade(deps);
  server.on("upgrade", (req, socket, head) => upgrade(req, socket as Socket, head));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

function dial(
  path = "/api2/json/nodes/localhost/qemu/100/vncwebsocket?port=5900&vncticket=PVEVNC%3A1%3A%3Aa",
  protocols: string[] = ["base64", "binary"],
  headers: Record<string, string> = { authorization: "x" },
): WebSocket {
  const { port } = server.address() as AddressInfo;
  return new WebSocket(`ws://127.0.0.1:${port}${path}`, protocols, { headers });
}

const outcome = (socket: WebSocket): Promise<string> =>
  new Promise((resolve) => {
    socket.on("error", silent);
    socket.on("unexpected-response", (_req, res) => {
      resolve(`${res.statusCode} ${res.statusMessage}`);
      socket.terminate();
    });
    socket.on("open", () => resolve("open"));
  });

function heard(socket: WebSocket): () => string {
  let text = "";
  socket.on("message", (data: Buffer, isBinary) => (text += isBinary ? data.toString() : "TEXT"));
  return () => text;
}

describe("the websocket of a console", () => {
  test("carries bytes both ways and ends with either side", async () => {
    const socket = dial();
    const text = heard(socket);
    expect(await outcome(socket)).toBe("open");
    expect(socket.protocol).toBe("binary");
    expect(opened[0]).toMatchObject({
      decision: {
        route: "TUNNEL /gpve/nodes/{node}/vms/{vmid}/console",
        actor,
        judged: { node: "n1", vmid: "100" },
      },
      params: { vmid: 100, port: 5900 },
    });
    socket.send(Buffer.from("abc"));
    await expect.poll(text).toBe("ABC");
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.send(Buffer.from("q"));
    expect(await closed).toBe(1001);
    await ended;
  });

  test("ends the console when the client goes", async () => {
    const socket = dial(undefined, ["other"]);
    expect(await outcome(socket)).toBe("open");
    expect(socket.protocol).toBe("other");
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.close();
    expect(await closed).toBe(1001);
    await ended;
  });

  test("drops clients that send too much at once", async () => {
    const socket = dial();
    await outcome(socket);
    const closed = new Promise<number>((resolve) => socket.once("close", resolve));
    socket.send(Buffer.alloc(200 * 1024));
    expect(await closed).toBe(1009);
    await ended;
  });

  test("of a terminal asks who is there and unwraps keys", async () => {
    kind = "terminal";
    const socket = dial();
    const text = heard(socket);
    await outcome(socket);
    socket.send(`joe@pve:${VALID}\n`);
    await expect.poll(text).toBe("OK");
    socket.send("0:3:abc1:80:24:2");
    await expect.poll(text).toBe("OKABC");
    socket.close();
    await ended;
  });

  test("of a node's shell passes keys and sizes on", async () => {
    kind = "shell";
    const socket = dial("/api2/json/nodes/localhost/vncwebsocket?port=5900&vncticket=PVEVNC%3A1%3A%3Aa");
    const text = heard(socket);
    expect(await outcome(socket)).toBe("open");
    expect(opened[0]?.params).toEqual({ node: "n1", port: 5900 });
    socket.send(`joe@pve:${VALID}\n1:80:24:0:2:hi`);
    await expect.poll(text).toContain("OK");
    await expect.poll(text).toContain("R\0P\0\u0018D\0\0\0\u0002HI");
    socket.close();
    await ended;
  });

  test("of a terminal closes on a wrong ticket", async () => {
    kind = "terminal";
    const socket = dial();
    const text = heard(socket);
    await outcome(socket);
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.send("joe@pve:PVEVNC:2::b\n");
    await closed;
    expect(text()).toBe("");
  });

  test("is asked for by the client, not by the proxy in between", async () => {
    const headers = { authorization: "x", "x-forwarded-for": "10.9.9.9, 203.0.113.7" };
    const socket = dial(undefined, undefined, headers);
    expect(await outcome(socket)).toBe("open");
    expect(cameFrom).toEqual(["203.0.113.7"]);
    socket.close();
    await ended;
  });

  test("is refused like any other call", async () => {
    const path = "/api2/json/nodes/n1/qemu/100/vncwebsocket";
    expect(await outcome(dial(`${path}?port=5900&vncticket=x`))).toBe(
      "401 permission denied - invalid PVEVNC ticket",
    );
    expect(await outcome(dial(`${path}?port=1&vncticket=x`))).toBe("400 Parameter verification failed.");
    expect(await outcome(dial(`${path}?port=5900&vncticket=x`, [], {}))).toBe("401 No ticket");
    expect(await outcome(dial("/api2/json/nodes/n1/qemu/101/vncwebsocket?port=5900&vncticket=x"))).toBe(
      "403 Permission check failed",
    );
    expect(
      await outcome(dial("/api2/json/nodes/n9/qemu/100/vncwebsocket?port=5900&vncticket=PVEVNC%3A1%3A%3Aa")),
    ).toContain("500 hostname lookup 'n9' failed");
    expect(await outcome(dial("/api2/json/nodes/n1/status"))).toBe(
      "501 Method 'GET /nodes/n1/status' not implemented",
    );
    failure = new AppError("object.conflict", "no console waits", { pveStatus: 500 });
    expect(await outcome(dial())).toBe("500 no console waits");
    delete agent.tunnel;
    expect(await outcome(dial())).toBe("501 node n1 offers no tunnels");
  });
});

describe("asking for a console", () => {
  const ctx = { actor, requestId: "r", clientAddress: "", signal: new AbortController().signal };
  const handlers = createConsoleHandlers({
    calls: nodeCalls({ connection: () => agent }),
    localNode: "n1",
    tickets,
    certificate: () => "CERT",
  });

  test("gives a ticket whose first eight characters are the password", async () => {
    expect(
      await handlers["POST /nodes/{node}/qemu/{vmid}/vncproxy"]?.(
        { node: "localhost", vmid: 100, "generate-password": true },
        ctx as unknown as RequestContext,
      ),
    ).toEqual({
      user: "joe@pve",
      port: 5900,
      upid: "UPID:vnc",
      password: "12345678",
      ticket: `12345678:${VALID}`,
      cert: "CERT",
    });
  });

  test("of a terminal gives a plain ticket, and a ticket can be tried", async () => {
    expect(
      await handlers["POST /nodes/{node}/qemu/{vmid}/termproxy"]?.(
        { node: "n1", vmid: 100, serial: "serial0" },
        { ...ctx, traceparent: "t" } as unknown as RequestContext,
      ),
    ).toEqual({ user: "joe@pve", port: 5900, upid: "UPID:terminal", ticket: VALID });
    const tried = handlers["GET /nodes/{node}/qemu/{vmid}/vncwebsocket"];
    expect(
      tried?.({ node: "n1", vmid: 100, port: 5900, vncticket: VALID }, ctx as unknown as RequestContext),
    ).toEqual({ port: "5900" });
  });

  test("of a node gives a ticket for the node", async () => {
    expect(
      await handlers["POST /nodes/{node}/termproxy"]?.(
        { node: "localhost" },
        ctx as unknown as RequestContext,
      ),
    ).toEqual({ user: "joe@pve", port: 5900, upid: "UPID:undefined", ticket: VALID });
    const tried = handlers["GET /nodes/{node}/vncwebsocket"];
    expect(
      tried?.({ node: "localhost", port: 5900, vncticket: VALID }, ctx as unknown as RequestContext),
    ).toEqual({ port: "5900" });
  });
});
