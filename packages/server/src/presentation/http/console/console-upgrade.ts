// A websocket to a console: checked like any call of the API, joined to the tunnel the node opened. Bytes pass as they
// are, but for a terminal, whose client wraps what it sends.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { createWebSocketStream, WebSocket, WebSocketServer } from "ws";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import { findMethod, methodKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { background } from "@gpve/kit/background.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import { markKnown } from "../../listener/known-peers.ts";
import { clientAddressOf, type IsProxy } from "../../listener/trusted-proxies.ts";
import { toFailure } from "../pve/failure.ts";
import { splitApiPath } from "../pve/path.ts";
import type { Authenticated } from "../../../application/access/authenticator.ts";
import type { TunnelTo } from "../../../application/node/call-agent.ts";
import type { PveApiDeps } from "../pve/ports.ts";
import { cookieTicket } from "../pve/pve-api.ts";
import { collectParams, mergePathParams } from "../pve/request-params.ts";
import { whenThere } from "../socket-stream.ts";
import { refuseUpgrade } from "../upgrade.ts";
import { nodePath, requireTicket, type ConsoleTickets } from "./console-handlers.ts";
import { shellFrame, TerminalFrames } from "./terminal-frames.ts";

type ConsoleTunnel = TunnelTo<"TUNNEL /gpve/nodes/{node}/vms/{vmid}/console">;

export interface ConsoleUpgradeDeps extends Pick<
  PveApiDeps,
  "authenticate" | "decide" | "accessOf" | "calls" | "localNode" | "log" | "newRequestId"
> {
  readonly tickets: ConsoleTickets;
  /** Whose X-Forwarded-For is honoured. */
  readonly isProxy: IsProxy;
}

interface Request {
  readonly auth: Authenticated;
  readonly node: string;
  /** Of a VM's console; a node's own has none. */
  readonly vmid: number | undefined;
  /** What the ticket is bound to. */
  readonly owner: string;
  readonly port: number;
}

const WEBSOCKET_PATHS = new Set(["/nodes/{node}/qemu/{vmid}/vncwebsocket", "/nodes/{node}/vncwebsocket"]);
const MAX_FRAME_BYTES = 128 * 1024;
const KEEP_ALIVE_MS = 30_000;

/**
 * PVE goes, and lets go, without a word. To go-proxmox any other reason than this one is a failure that it cannot
 * bear, an answer to its own close without a reason too.
 */
const GOING_AWAY = 1001;

class ConsoleSocket extends WebSocket {
  override close(code: number = GOING_AWAY, reason?: string | Buffer): void {
    super.close(code, reason);
  }
}

export function createConsoleUpgrade(
  deps: ConsoleUpgradeDeps,
): (req: IncomingMessage, socket: Socket, head: Buffer) => void {
  const server = new WebSocketServer({
    noServer: true,
    WebSocket: ConsoleSocket,
    clientTracking: false,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    handleProtocols: (offered) => (offered.has("binary") ? "binary" : ([...offered][0] ?? false)),
  });
  return (req, socket, head) => {
    const [rawPath = "", query = ""] = (req.url ?? "").split(/\?(.*)/s, 2);
    const path = splitApiPath(rawPath);
    const found = findMethod("GET", path.segments);
    if (path.format === undefined || found.kind !== "found" || !WEBSOCKET_PATHS.has(found.method.path)) {
      refuseUpgrade(req, socket);
      return;
    }
    socket.on("error", () => socket.destroy());
    background(deps.log, "console", serve(found.method, found.pathParams));

    async function serve(method: PveMethod, pathParams: Readonly<Record<string, string>>): Promise<void> {
      const abort = new AbortController();
      socket.once("close", () => abort.abort());
      const client = Promise.withResolvers<AsyncIterable<Uint8Array>>();
      let tunnel: ConsoleTunnel;
      let request: Request;
      try {
        request = await check(deps, req, { method, pathParams, query, path: path.segments });
        const { node, vmid, port, auth } = request;
        const asking = {
          actor: auth.actor,
          access: deps.accessOf(auth.actor),
          requestId: deps.newRequestId(),
          clientAddress: clientAddressOf(req, deps.isProxy),
          signal: abort.signal,
        };
        const input = whenThere(client.promise);
        tunnel =
          vmid === undefined
            ? await deps.calls.tunnel(node, "TUNNEL /gpve/nodes/{node}/shell", { port }, input, asking)
            : await deps.calls.tunnel(
                node,
                "TUNNEL /gpve/nodes/{node}/vms/{vmid}/console",
                { port, vmid },
                input,
                asking,
              );
      } catch (err) {
        const { status, message } = toFailure(err);
        const reason = message.trim().replaceAll(/[^\t\x20-\x7e]/g, " ");
        socket.end(`HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      socket.setKeepAlive(true, KEEP_ALIVE_MS);
      server.handleUpgrade(req, socket, head, (ws) => {
        background(deps.log, "console", join(ws, tunnel, request));
      });

      async function join(ws: WebSocket, { opened, output }: ConsoleTunnel, asked: Request): Promise<void> {
        const stream = createWebSocketStream(ws);
        // A client that goes without a word has closed its console.
        stream.on("error", () => stream.destroy());
        // The node's side may end first: what it has said is still sent.
        const received = stream.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
        const kind = opened.kind;
        // Who has not said who they are sees nothing, and hears OK before anything else.
        const welcomed = Promise.withResolvers<void>();
        ws.once("close", () => welcomed.resolve());
        if (kind === "terminal" || kind === "shell")
          client.resolve(keysOf(received, ws, asked, { kind, welcome: welcomed.resolve }));
        else {
          client.resolve(received);
          welcomed.resolve();
        }
        try {
          for await (const chunk of output) {
            await welcomed.promise;
            if (stream.destroyed) break;
            if (!stream.write(chunk)) await roomIn(stream);
          }
        } finally {
          ws.close();
          abort.abort();
        }
      }
    }
  };

  async function* keysOf(
    stream: AsyncIterable<Uint8Array>,
    ws: WebSocket,
    asked: Request,
    terminal: { readonly kind: "terminal" | "shell"; readonly welcome: () => void },
  ) {
    const frames = new TerminalFrames();
    for await (const chunk of stream) {
      for (const event of frames.push(chunk)) {
        if (event.kind === "login") {
          try {
            requireTicket(deps.tickets, event.ticket, event.user, asked.owner, asked.port);
          } catch (err) {
            ws.close();
            throw err;
          }
          ws.send(Buffer.from("OK"));
          terminal.welcome();
        } else if (terminal.kind === "shell") yield shellFrame(event);
        // A serial line has no size to set.
        else if (event.kind === "input") yield event.bytes;
      }
    }
  }
}

/** The order is that of every other call: who, may they, is it well formed; then the ticket. */
async function check(
  deps: ConsoleUpgradeDeps,
  req: IncomingMessage,
  call: {
    readonly method: PveMethod;
    readonly pathParams: Readonly<Record<string, string>>;
    readonly query: string;
    readonly path: readonly string[];
  },
): Promise<Request> {
  const path = `/${call.path.join("/")}`;
  const auth = await deps.authenticate({
    method: "GET",
    path,
    cookieTicket: cookieTicket(req.headers.cookie),
    authorization: req.headers.authorization,
    csrfToken: undefined,
    clientAddress: clientAddressOf(req, deps.isProxy),
  });
  markKnown(req.socket);
  const { params } = collectParams(call.query, Buffer.alloc(0), "form");
  mergePathParams(params, call.pathParams);
  deps.decide(methodKey(call.method), params, { actor: auth.actor, access: deps.accessOf(auth.actor) });
  const valid = requireValidParams(call.method, params, { source: "form" }) as {
    node: string;
    vmid?: number;
    port: number;
    vncticket: string;
  };
  const { node, vmid, port } = valid;
  const owner = vmid === undefined ? nodePath(deps, node) : `/vms/${vmid}`;
  requireTicket(deps.tickets, valid.vncticket, auth.actor?.authid ?? "", owner, port);
  return { auth, node, vmid, owner, port };
}
