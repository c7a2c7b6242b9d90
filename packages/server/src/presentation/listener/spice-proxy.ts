// The proxy SPICE viewers go through: HTTP CONNECT to a ticket instead of a host, then TLS that ends here, then the VM's
// own SPICE, on whichever node it runs.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createSecureContext, TLSSocket } from "node:tls";
import { messageOf } from "@gpve/contracts/errors.ts";
import { noAccess } from "@gpve/domain/access/access-view.ts";
import { SPICE_TUNNEL } from "@gpve/domain/node/console.ts";
import { background } from "@gpve/kit/background.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import type { NodeCalls } from "../../application/node/call-agent.ts";
import type { Certificate } from "./listener.ts";

export interface SpiceProxyOptions {
  readonly host: string;
  /** Taken when it is free; else any other. */
  readonly port: number;
  readonly certificate: () => Certificate;
  readonly calls: NodeCalls;
  readonly verify: (ticket: string) => { readonly vmid: number; readonly node: string } | undefined;
  readonly newRequestId: () => string;
  readonly log: Logger;
}

export interface SpiceProxy {
  readonly address: AddressInfo;
  close(): Promise<void>;
}

const HEAD_TIMEOUT_MS = 15_000;
const KEEP_ALIVE_MS = 30_000;
const MAX_HEAD_BYTES = 8 * 1024;

export async function listenForSpice(options: SpiceProxyOptions): Promise<SpiceProxy> {
  const sockets = new Set<Socket>();
  const server = createServer(
    { maxHeaderSize: MAX_HEAD_BYTES, headersTimeout: HEAD_TIMEOUT_MS, connectionsCheckingInterval: 5_000 },
    (_req, res) => {
      res.writeHead(501, { "Content-Length": 0, Connection: "close" });
      res.end();
    },
  );
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  });
  server.on("connect", (req: IncomingMessage, socket: Socket, head: Buffer) => {
    background(options.log, "SPICE console", carry(options, req.url ?? "", socket, head));
  });
  await bind(options.port).catch(async (err: NodeJS.ErrnoException) => {
    if (err.code !== "EADDRINUSE" && err.code !== "EACCES") throw err;
    await bind(0);
  });
  return {
    address: server.address() as AddressInfo,
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };

  function bind(port: number): Promise<void> {
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, options.host, () => {
        server.off("error", reject);
        resolve();
      });
    });
  }
}

async function carry(
  options: SpiceProxyOptions,
  target: string,
  socket: Socket,
  head: Buffer,
): Promise<void> {
  // host:port, where the host is a ticket with colons of its own.
  const wanted = options.verify(target.replace(/:\d+$/, ""));
  if (wanted === undefined || !options.calls.knows(wanted.node)) {
    socket.end("HTTP/1.0 401 invalid ticket\r\nConnection: close\r\n\r\n");
    return;
  }
  const abort = new AbortController();
  socket.once("close", () => abort.abort());
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
  socket.setNoDelay(true);
  if (head.length > 0) socket.unshift(head);
  socket.write("HTTP/1.0 200 OK\r\n\r\n");
  const { cert, key } = options.certificate();
  const secure = new TLSSocket(socket, { isServer: true, secureContext: createSecureContext({ cert, key }) });
  secure.on("error", () => socket.destroy());
  try {
    const { output } = await options.calls.tunnel(
      wanted.node,
      SPICE_TUNNEL,
      { vmid: wanted.vmid },
      received(secure),
      {
        work: "spice-viewer",
        actor: undefined,
        access: noAccess,
        requestId: options.newRequestId(),
        clientAddress: "",
        signal: abort.signal,
      },
    );
    for await (const chunk of output) {
      if (secure.destroyed) break;
      if (!secure.write(chunk)) await roomIn(secure);
    }
  } catch (err) {
    options.log.info(
      { resource: `qemu/${wanted.vmid}`, err: messageOf(err) },
      "a SPICE viewer was sent away",
    );
  } finally {
    secure.end();
    abort.abort();
  }
}

async function* received(socket: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* socket;
  } catch {
    // A viewer that breaks off has closed its channel.
  }
}
