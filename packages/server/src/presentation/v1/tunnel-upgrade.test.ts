import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { agentRoute } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { decideAnything } from "@gpve/domain/access/testing/decided.ts";
import { permissionDenied } from "@gpve/domain/access/access-view.ts";
import { AgentUnreachable, type TunnelRequest } from "@gpve/domain/node/agent-port.ts";
import { FakeAgent } from "@gpve/domain/node/testing/fake-agent.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { nodeCalls } from "../../testing/node-calls.ts";
import type { Credentials } from "../../application/access/authenticator.ts";
import type { AuditedCall } from "../../application/audit/record-audit.ts";
import { createTunnelUpgrade, isTunnelUpgrade } from "./tunnel-upgrade.ts";

const silent = (): void => undefined;
const PATH = "/api/v1/virtualmachines/100/tunnel?port=50000";
const TOKEN = { authorization: "PVEAPIToken=joe@pve!t=s" };

let server: Server;
let opened: TunnelRequest[];
let failure: Error | undefined;
let audited: AuditedCall[];
let auditFails: Error | undefined;
let logged: string[];
let delays: number[];
let credentials: Credentials[];
let who: () => Promise<{ actor: { userid: string; authid: string }; via: "token" }>;
let isAllowed: boolean;
let changed: () => void;
let clock: FakeClock;

/** Sends back what it gets, in capitals, and ends at "q". */
async function* shout(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  for await (const chunk of input) {
    const text = Buffer.from(chunk).toString();
    yield Buffer.from(text.toUpperCase());
    if (text.includes("q")) return;
  }
}

const agent = new FakeAgent({
  answer: () => ({ data: null }),
  open: (request, input) => {
    opened.push(request);
    if (failure !== undefined) throw failure;
    return { opened: { kind: "port", address: "10.0.0.7" }, output: shout(input) };
  },
});

beforeEach(async () => {
  [opened, audited, logged, delays, credentials] = [[], [], [], [], []];
  [failure, auditFails, isAllowed] = [undefined, undefined, true];
  clock = new FakeClock(0);
  changed = silent;
  who = () => Promise.resolve({ actor: { userid: "joe@pve", authid: "joe@pve!t" }, via: "token" as const });
  const upgrade = createTunnelUpgrade({
    authenticate: (given) => {
      credentials.push(given);
      if (given.authorization === undefined) throw new AppError("auth.failed", "invalid csrf token");
      return who();
    },
    // The route's own rule, without a model of users behind it.
    decide: (route, params, subject) => {
      subject.access.require(`/vms/${String(params["vmid"])}`, ["VM.Console"]);
      return decideAnything(route, params, subject);
    },
    accessOf: () => ({
      privileges: () => new Map(),
      has: () => isAllowed,
      require: (path, privileges) => {
        if (!isAllowed) throw permissionDenied(`${path}, ${privileges.join("|")}`);
      },
    }),
    audit: async (event) => {
      if (auditFails !== undefined) throw auditFails;
      if (event !== undefined) audited.push(event);
    },
    calls: nodeCalls({ connection: (node) => (node === "n2" ? agent : undefined) }),
    log: { debug: silent, info: silent, warn: silent, error: (_fields, text) => void logged.push(text) },
    newRequestId: () => "r1",
    delay: (ms) => Promise.resolve(void delays.push(ms)),
    fresh: () => Promise.resolve(),
    isProxy: () => false,
    clock,
    nodeOf: (vmid) => ({ 100: "n2", 101: "n9" })[vmid],
    epoch: {
      onChange: (listener) => {
        changed = listener;
        return () => void (changed = silent);
      },
    },
  });
  server = createServer();
  server.on("upgrade", (req, socket, head) => upgrade(req, socket as Socket, head));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
});
afterEach(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const dial = (path = PATH, headers: Record<string, string> = TOKEN): WebSocket => {
  const { port } = server.address() as AddressInfo;
  return new WebSocket(`ws://127.0.0.1:${port}${path}`, ["binary"], { headers });
};
const outcome = (socket: WebSocket): Promise<string> =>
  new Promise((resolve) => {
    socket.on("error", silent);
    socket.on("unexpected-response", (_req, res) => {
      let text = "";
      res.on("data", (chunk: Buffer) => (text += chunk.toString()));
      res.on("end", () => {
        const { code, detail } = JSON.parse(text) as { code: string; detail: string };
        resolve(`${res.statusCode} ${code}: ${detail}`);
        socket.terminate();
      });
    });
    socket.on("open", () => resolve("open"));
  });
const ending = (socket: WebSocket): Promise<string> =>
  new Promise((resolve) => socket.once("close", (code, reason) => resolve(`${code} ${reason.toString()}`)));

describe("a line to a VM", () => {
  test("goes to the VM's node, carries bytes both ways and is told to the audit log", async () => {
    const socket = dial(`${PATH}&address=10.0.0.7`);
    const said: string[] = [];
    socket.on("message", (data: Buffer) => said.push(data.toString()));
    const closed = ending(socket);
    expect(await outcome(socket)).toBe("open");
    socket.send(Buffer.from("abc"));
    await expect.poll(() => said.join("")).toBe("ABC");
    socket.send(Buffer.from("q"));
    await closed;
    expect(opened).toMatchObject([
      {
        decision: {
          route: "TUNNEL /gpve/nodes/{node}/vms/{vmid}/port",
          actor: { authid: "joe@pve!t" },
          judged: { node: "n2", vmid: "100" },
        },
        params: { node: "n2", vmid: 100, port: 50_000, address: "10.0.0.7" },
      },
    ]);
    expect(audited).toMatchObject([
      {
        user: "joe@pve!t",
        verb: "GET",
        resource: "/api/v1/virtualmachines/{vmid}/tunnel",
        name: "/api/v1/virtualmachines/100/tunnel",
        statusCode: 101,
        params: { vmid: "100", port: 50_000, node: "n2", address: "10.0.0.7" },
      },
    ]);
  });

  test("is asked for as a change is, so that no page of somebody else's opens it with a browser's cookie", async () => {
    expect(await outcome(dial(PATH, { cookie: "PVEAuthCookie=x" }))).toBe(
      "401 auth.failed: invalid csrf token",
    );
    expect(credentials).toMatchObject([{ method: "POST", cookieTicket: "x" }]);
    expect(delays).toEqual([3_000]);
    expect(audited).toMatchObject([{ statusCode: 401, user: "" }]);
    expect(opened).toEqual([]);
  });

  test("is declared to need the console's privilege, and no other", () => {
    expect(agentRoute("TUNNEL /gpve/nodes/{node}/vms/{vmid}/port")?.needs).toEqual({
      check: ["perm", "/vms/{vmid}", ["VM.Console"]],
    });
  });

  test("is refused to whoever may not use the console, before it is known whether there is such a VM", async () => {
    isAllowed = false;
    expect(await outcome(dial())).toContain("403 access.denied: Permission check failed (/vms/100");
    expect(await outcome(dial(PATH.replace("100", "999")))).toContain("403");
    expect(audited.map(({ statusCode }) => statusCode)).toEqual([403, 403]);
    expect(opened).toEqual([]);
  });

  test("is refused in words", async () => {
    expect(await outcome(dial(PATH.replace("100", "999")))).toBe("404 object.not_found: there is no VM 999");
    expect(await outcome(dial(PATH.replace("?port=50000", "")))).toContain("400 request.invalid");
    expect(await outcome(dial(PATH.replace("50000", "0")))).toContain("from 1 to 65535");
    expect(await outcome(dial(PATH.replace("50000", "65536")))).toContain("400");
    expect(await outcome(dial(`${PATH}&host=x`))).toContain("'host' is not known here");
    expect(await outcome(dial(PATH.replace("100", "101")))).toContain("404");
    failure = new AppError("access.denied", "10.0.0.1 is node n2 itself");
    expect(await outcome(dial())).toBe("403 access.denied: 10.0.0.1 is node n2 itself");
    failure = new AgentUnreachable(595, "n2 is away");
    expect(await outcome(dial())).toBe("503 node.unavailable: n2 is away");
    failure = new Error("secret words");
    expect(await outcome(dial())).toContain("500 internal.error: the server failed");
    expect(logged).toContain("a line to a VM failed");
  });

  test("does not begin where the audit log does not know of it", async () => {
    auditFails = new Error("disk full");
    expect(await outcome(dial())).toContain("500");
    expect(logged).toContain("the audit log could not be written");
  });

  test("ends when the right to it goes, and goes on while it is there", async () => {
    const socket = dial();
    const said: string[] = [];
    socket.on("message", (data: Buffer) => said.push(data.toString()));
    const closed = ending(socket);
    expect(await outcome(socket)).toBe("open");
    await expect.poll(() => changed).not.toBe(silent);
    changed();
    await clock.advance(31_000);
    await expect.poll(() => credentials.length).toBeGreaterThanOrEqual(3);
    socket.send(Buffer.from("abc"));
    await expect.poll(() => said.join("")).toBe("ABC");
    isAllowed = false;
    changed();
    expect(await closed).toContain("1008 the right to this line is gone: Permission check failed");
    await expect.poll(() => changed).toBe(silent);
  });

  test("ends when the ticket is over, or somebody else's", async () => {
    for (const next of [
      () => Promise.reject(new AppError("auth.failed", "invalid PVE ticket")),
      () => Promise.resolve({ actor: { userid: "ann@pve", authid: "ann@pve" }, via: "token" as const }),
    ]) {
      const before = who;
      const socket = dial();
      const closed = ending(socket);
      expect(await outcome(socket)).toBe("open");
      await expect.poll(() => changed).not.toBe(silent);
      who = next;
      await clock.advance(31_000);
      expect(await closed).toContain("1008 the right to this line is gone");
      who = before;
    }
  });

  test("is nothing else", () => {
    const about = (url: string): boolean => isTunnelUpgrade({ url } as Parameters<typeof isTunnelUpgrade>[0]);
    expect(about(PATH)).toBe(true);
    for (const url of ["/api/v1/virtualmachines/0100/tunnel", "/api/v1/virtualmachines/x/tunnel", "/api/v1"])
      expect(about(url)).toBe(false);
  });
});
