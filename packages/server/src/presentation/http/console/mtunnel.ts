// Running VMs that come from another cluster: whoever may make VMs here is offered a line, and comes back by websockets. Its
// secret is the node's own; what is said by it is between the two nodes.
import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { given } from "@gpve/contracts/given.ts";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { findMethod, methodKey } from "@gpve/domain/schema/method-table.ts";
import { requireValidParams } from "@gpve/domain/schema/validate-params.ts";
import { background } from "@gpve/kit/background.ts";
import type { NodeCalls, TunnelTo } from "../../../application/node/call-agent.ts";
import { markKnown } from "../../listener/known-peers.ts";
import { clientAddressOf } from "../../listener/trusted-proxies.ts";
import { toFailure } from "../pve/failure.ts";
import { splitApiPath } from "../pve/path.ts";
import { cookieTicket } from "../pve/pve-api.ts";
import { collectParams, mergePathParams } from "../pve/request-params.ts";
import { byteSockets, joinStreams, whenThere } from "../socket-stream.ts";
import type { ConsoleUpgradeDeps } from "./console-upgrade.ts";

type Mtunnel = TunnelTo<"TUNNEL /gpve/nodes/{node}/vms/{vmid}/mtunnel">;
type Deps = Omit<ConsoleUpgradeDeps, "tickets">;

const WEBSOCKET = "/nodes/{node}/qemu/{vmid}/mtunnelwebsocket";
const MAX_FRAME_BYTES = 4 * 1024 * 1024;
const KEEP_ALIVE_MS = 10_000;

export function createMtunnelHandlers({ calls }: { readonly calls: NodeCalls }): PveHandlers {
  return {
    "POST /nodes/{node}/qemu/{vmid}/mtunnel": async ({ node, vmid, storages, bridges }, ctx) => {
      const params = { vmid, ...given({ storages, bridges }) };
      const { data } = await calls.call(node, "POST /gpve/nodes/{node}/vms/{vmid}/mtunnel", params, ctx);
      return data;
    },
    // Without asking for a websocket there is nothing to be had.
    [`GET ${WEBSOCKET}`]: ({ socket }: { readonly socket: string }) => ({ socket }),
  };
}

/** Whether it is about such a line: everything else is somebody else's. */
export function isMtunnelUpgrade(req: IncomingMessage): boolean {
  const found = findMethod("GET", splitApiPath((req.url ?? "").split("?", 1)[0] ?? "").segments);
  return found.kind === "found" && found.method.path === WEBSOCKET;
}

export function createMtunnelUpgrade(
  deps: Deps,
): (req: IncomingMessage, socket: Socket, head: Buffer) => void {
  const server = byteSockets(MAX_FRAME_BYTES);
  return (req, socket, head) => {
    socket.on("error", () => socket.destroy());
    background(deps.log, "a VM of another cluster", serve(req, socket, head));
  };

  async function serve(req: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const abort = new AbortController();
    socket.once("close", () => abort.abort());
    const client = Promise.withResolvers<AsyncIterable<Uint8Array>>();
    let tunnel: Mtunnel;
    try {
      tunnel = await open(req, whenThere(client.promise), abort.signal);
    } catch (err) {
      const { status, message } = toFailure(err);
      const reason = message.trim().replaceAll(/[^\t\x20-\x7e]/g, " ");
      socket.end(`HTTP/1.1 ${status} ${reason}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
      return;
    }
    socket.setNoDelay(true);
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    server.handleUpgrade(req, socket, head, (ws) => {
      background(
        deps.log,
        "a VM of another cluster",
        joinStreams(ws, tunnel.output, client.resolve).finally(() => abort.abort()),
      );
    });
  }

  async function open(
    req: IncomingMessage,
    input: AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<Mtunnel> {
    const [rawPath = "", query = ""] = (req.url ?? "").split(/\?(.*)/s, 2);
    const { segments } = splitApiPath(rawPath);
    const found = findMethod("GET", segments);
    if (found.kind !== "found") throw new Error("asked for by whoever knows that it is there");
    const clientAddress = clientAddressOf(req, deps.isProxy);
    const { actor } = await deps.authenticate({
      method: "GET",
      path: `/${segments.join("/")}`,
      cookieTicket: cookieTicket(req.headers.cookie),
      authorization: req.headers.authorization,
      csrfToken: undefined,
      clientAddress,
    });
    markKnown(req.socket);
    const { params } = collectParams(query, Buffer.alloc(0), "form");
    mergePathParams(params, found.pathParams);
    const access = deps.accessOf(actor);
    deps.decide(methodKey(found.method), params, { actor, access });
    const valid = requireValidParams(found.method, params, { source: "form" });
    const { node, vmid, socket, ticket } = valid as Record<"node" | "socket" | "ticket", string> & {
      readonly vmid: number;
    };
    const asking = { actor, access, requestId: deps.newRequestId(), clientAddress, signal };
    const route = "TUNNEL /gpve/nodes/{node}/vms/{vmid}/mtunnel";
    return deps.calls.tunnel(node, route, { vmid, socket, ticket }, input, asking);
  }
}
