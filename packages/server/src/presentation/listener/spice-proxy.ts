// The proxy SPICE viewers go through: HTTP CONNECT to a ticket instead of a host, then TLS that ends here, then the VM's
// own SPICE, on whichever node it runs.
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { createSecureContext, TLSSocket } from "node:tls";
import { messageOf } from "@gpve/contracts/errors.ts";
import { noAccess } from "@gpve/domain/access/access-view.ts";
import { background } from "@gpve/kit/background.ts";
import { systemClock, type Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { plainAddress } from "@gpve/kit/net/client-network.ts";
import { Strangers, type StrangerLimits } from "@gpve/kit/net/strangers.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import type { NodeCalls } from "../../application/node/call-agent.ts";
import type { Certificate } from "./listener.ts";

export interface SpiceProxyOptions {
  readonly host: string;
  /** Of this server; what it is called by where it listens everywhere. */
  readonly nodeName: string;
  /** Taken when it is free; else any other. */
  readonly port: number;
  readonly certificate: () => Certificate;
  readonly calls: NodeCalls;
  readonly verify: (ticket: string) => { readonly vmid: number; readonly node: string } | undefined;
  readonly newRequestId: () => string;
  readonly log: Logger;
  readonly limits?: SpiceLimits;
  readonly clock?: Clock;
}

export interface SpiceLimits {
  /** Of connections that have not shown a ticket and finished their handshake. */
  readonly strangers: StrangerLimits;
  /** A viewer has about a dozen channels. */
  readonly perGuest: number;
}

export const SPICE_LIMITS: SpiceLimits = {
  strangers: { perAddress: 64, inAll: 512, graceMs: 2_000, handshakeMs: 15_000 },
  perGuest: 128,
};

export interface SpiceProxy {
  readonly address: AddressInfo;
  /** By which viewers find it. */
  readonly reach: { readonly host: string; readonly port: number };
  close(): Promise<void>;
}

const KEEP_ALIVE_MS = 30_000;
const MAX_HEAD_BYTES = 8 * 1024;

export async function listenForSpice(options: SpiceProxyOptions): Promise<SpiceProxy> {
  const sockets = new Set<Socket>();
  const { strangers: limits, perGuest } = options.limits ?? SPICE_LIMITS;
  // Ends whoever has not asked, or not finished its handshake, in time.
  const strangers = new Strangers({ limits, clock: options.clock ?? systemClock });
  const viewers = new Viewers(perGuest);
  const server = createServer({ maxHeaderSize: MAX_HEAD_BYTES }, (_req, res) => {
    res.writeHead(501, { "Content-Length": 0, Connection: "close" });
    res.end();
  });
  server.on("connection", (socket) => {
    strangers.admit(socket);
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
  });
  server.on("connect", (req: IncomingMessage, socket: Socket, head: Buffer) => {
    background(
      options.log,
      "SPICE console",
      carry({ ...options, strangers, viewers }, req.url ?? "", socket, head),
    );
  });
  await bind(options.port).catch(async (err: NodeJS.ErrnoException) => {
    if (err.code !== "EADDRINUSE" && err.code !== "EACCES") throw err;
    await bind(0);
  });
  const address = server.address() as AddressInfo;
  return {
    address,
    reach: { host: isWildcard(options.host) ? options.nodeName : options.host, port: address.port },
    close: async () => {
      strangers.close();
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

const isWildcard = (host: string): boolean => host === "0.0.0.0" || host === "::";

/** Connections to each guest. */
class Viewers {
  readonly #most: number;
  readonly #count = new Map<number, number>();

  constructor(most: number) {
    this.#most = most;
  }

  enter(vmid: number): boolean {
    const count = this.#count.get(vmid) ?? 0;
    if (count >= this.#most) return false;
    this.#count.set(vmid, count + 1);
    return true;
  }

  leave(vmid: number): void {
    const left = (this.#count.get(vmid) ?? 1) - 1;
    if (left === 0) this.#count.delete(vmid);
    else this.#count.set(vmid, left);
  }
}

async function carry(
  options: SpiceProxyOptions & { readonly strangers: Strangers; readonly viewers: Viewers },
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
  const { strangers, viewers } = options;
  if (!viewers.enter(wanted.vmid)) {
    socket.end("HTTP/1.0 503 too many connections to this guest\r\nConnection: close\r\n\r\n");
    return;
  }
  const abort = new AbortController();
  const clientAddress = plainAddress(socket.remoteAddress ?? "");
  socket.once("close", () => {
    viewers.leave(wanted.vmid);
    abort.abort();
  });
  socket.setKeepAlive(true, KEEP_ALIVE_MS);
  socket.setNoDelay(true);
  if (head.length > 0) socket.unshift(head);
  socket.write("HTTP/1.0 200 OK\r\n\r\n");
  const { cert, key } = options.certificate();
  const secure = new TLSSocket(socket, { isServer: true, secureContext: createSecureContext({ cert, key }) });
  secure.on("error", () => socket.destroy());
  let secured = false;
  try {
    await whenSecure(secure);
    secured = true;
    strangers.proven(socket);
    const { output } = await options.calls.tunnel(
      wanted.node,
      "TUNNEL /gpve/nodes/{node}/vms/{vmid}/spice",
      { vmid: wanted.vmid },
      received(secure),
      {
        work: "spice-viewer",
        actor: undefined,
        access: noAccess,
        requestId: options.newRequestId(),
        clientAddress,
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
    // Without a handshake there is nobody to say goodbye to.
    if (secured) secure.end();
    else socket.destroy();
    abort.abort();
  }
}

/** A guest is bothered only when its viewer is there. */
function whenSecure(secure: TLSSocket): Promise<void> {
  return new Promise((resolve, reject) => {
    secure.once("secure", () => resolve());
    for (const event of ["end", "close"]) {
      secure.once(event, () => {
        reject(new Error("it went away before its handshake was done"));
      });
    }
  });
}

async function* received(socket: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    yield* socket;
  } catch {
    // A viewer that breaks off has closed its channel.
  }
}
