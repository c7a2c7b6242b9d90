// One port for everything: TLS with HTTP/1.1 for the APIs, TLS with h2 and client certificates for agents, and a
// redirect for plain HTTP. The first bytes of a connection decide where it goes.
import {
  createServer as createHttp,
  type IncomingMessage,
  type RequestListener,
  type Server as HttpServer,
} from "node:http";
import { createServer as createHttp2, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { createServer as createTcp, type AddressInfo, type Server, type Socket } from "node:net";
import { createServer as createTls, type TLSSocket } from "node:tls";
import { AppError } from "@gpve/contracts/errors.ts";
import { peekConnection, wantsOnlyH2 } from "@gpve/kit/net/client-hello.ts";
import { Strangers, type StrangerLimits } from "@gpve/kit/net/strangers.ts";
import { systemClock, type Clock } from "@gpve/kit/clock.ts";
import { badRequestLine } from "./bad-request.ts";
import { JOIN_LIMITS, Joins } from "./joins.ts";
import { isKnown } from "./known-peers.ts";
import { OpenAnswers } from "./open-answers.ts";
import { redirectToTls } from "./plain-redirect.ts";
import type { IsProxy } from "./trusted-proxies.ts";

export interface Certificate {
  /** PEM, chain included. */
  readonly cert: string;
  readonly key: string;
}

export interface ListenerOptions {
  readonly host: string;
  readonly port: number;
  /** Shown to clients of the APIs. */
  readonly certificate: Certificate;
  /** Shown to agents, which know the cluster's authority and no other. */
  readonly agentCertificate: Certificate;
  /** CA that agents' client certificates must come from. */
  readonly agentCa: string;
  readonly onRequest: RequestListener;
  readonly onUpgrade: (req: IncomingMessage, socket: Socket, head: Buffer) => void;
  readonly onAgentRequest: (req: Http2ServerRequest, res: Http2ServerResponse) => void;
  /** Who takes connections that ask for that name, from their first bytes on; undefined = they are ours. */
  readonly passOn: (serverName: string) => PassOn | undefined;
  /** Whether the certificate that was shown is, at this moment, that of a node of the cluster. */
  readonly isAgent: (socket: TLSSocket) => boolean;
  readonly headersTimeoutMs?: number;
  readonly strangers?: StrangerLimits;
  readonly isProxy: IsProxy;
  readonly clock?: Clock;
  readonly drainMs?: number;
}

export type PassOn = (socket: Socket, first: Buffer) => void;

export interface Listener {
  readonly address: AddressInfo;
  /** New connections use the new certificates; running ones go on. */
  setCertificates(certificates: Pick<ListenerOptions, "certificate" | "agentCertificate">): void;
  /** Ends the connections of agents that are no nodes of the cluster any more. */
  dropStrangers(): void;
  close(): Promise<void>;
}

/** PVE closes a connection after this many requests. */
export const KEEP_ALIVE_REQUESTS = 100;
export const MAX_HEADER_BYTES = 8 * 1024;
/** A client with which TLS does not stand by then is dropped. */
const HANDSHAKE_MS = 15_000;
export const STRANGER_LIMITS: StrangerLimits = {
  perAddress: 256,
  inAll: 2_048,
  graceMs: 2_000,
  handshakeMs: HANDSHAKE_MS,
};
/** For the head of a request, however it trickles in. */
const HEADERS_TIMEOUT_MS = 20_000;
const CHECK_EVERY_MS = 5_000;
/** For requests that are under way when the server stops. */
const DRAIN_MS = 5_000;

/** Against floods of frames, streams and resets by somebody who could do nothing but join. */
const JOIN_SESSION = {
  maxSessionMemory: 1,
  maxHeaderListPairs: 64,
  maxOutstandingPings: 1,
  maxSettings: 32,
  maxSessionInvalidFrames: 16,
  maxSessionRejectedStreams: 8,
  streamResetBurst: 8,
  streamResetRate: 1,
};

export async function listen(options: ListenerOptions): Promise<Listener> {
  const sockets = new Set<Socket>();
  const agents = new Set<TLSSocket>();
  const http = createHttp(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: options.headersTimeoutMs ?? HEADERS_TIMEOUT_MS,
      // Uploads take as long as they take; whoever reads a body bounds the time for it.
      requestTimeout: 0,
      keepAliveTimeout: 10_000,
      connectionsCheckingInterval: Math.min(CHECK_EVERY_MS, options.headersTimeoutMs ?? CHECK_EVERY_MS),
      insecureHTTPParser: false,
      requireHostHeader: false,
    },
    options.onRequest,
  );
  const answers = new OpenAnswers(http);
  http.maxRequestsPerSocket = KEEP_ALIVE_REQUESTS;
  http.maxHeadersCount = 0;
  http.on("clientError", (err: NodeJS.ErrnoException, socket: Socket) => badRequestLine(err, socket));
  http.on("upgrade", options.onUpgrade);
  http.on("connect", (_req, socket: Socket) => socket.destroy());

  const plain = createHttp(
    {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: options.headersTimeoutMs ?? HEADERS_TIMEOUT_MS,
      requestTimeout: 30_000,
      keepAliveTimeout: 1_000,
      connectionsCheckingInterval: CHECK_EVERY_MS,
      requireHostHeader: false,
    },
    redirectToTls,
  );
  plain.on("clientError", (err: NodeJS.ErrnoException, socket: Socket) => badRequestLine(err, socket));

  // Node checks headersTimeout and requestTimeout only on servers that listen; these two are handed their connections.
  for (const server of [http, plain]) server.emit("listening");

  const http2 = createHttp2({ settings: { maxConcurrentStreams: 256 } }, options.onAgentRequest);
  // Whoever has no certificate can join, with one request.
  const joining = createHttp2(
    {
      settings: { maxConcurrentStreams: 1, maxHeaderListSize: MAX_HEADER_BYTES, enablePush: false },
      ...JOIN_SESSION,
    },
    options.onAgentRequest,
  );
  for (const server of [http2, joining]) {
    server.on("sessionError", () => {
      // The session is destroyed by node; the agent dials again.
    });
  }
  const clock = options.clock ?? systemClock;
  const strangers = new Strangers({
    limits: options.strangers ?? STRANGER_LIMITS,
    clock,
    isProxy: options.isProxy,
    isKnown,
  });
  const joins = new Joins(JOIN_LIMITS, clock);

  const publicTls = createTls(
    {
      ...options.certificate,
      ALPNProtocols: ["http/1.1"],
      minVersion: "TLSv1.2",
      handshakeTimeout: HANDSHAKE_MS,
    },
    (socket) => {
      strangers.secured(socket);
      http.emit("connection", socket);
    },
  );
  const agentTls = createTls(
    {
      ...options.agentCertificate,
      ca: options.agentCa,
      requestCert: true,
      // A joining agent has no certificate yet; every call but Join checks `authorized`.
      rejectUnauthorized: false,
      ALPNProtocols: ["h2"],
      minVersion: "TLSv1.3",
      handshakeTimeout: HANDSHAKE_MS,
    },
    (socket) => {
      if (options.isAgent(socket)) {
        agents.add(socket);
        socket.on("close", () => agents.delete(socket));
        strangers.proven(socket);
        http2.emit("connection", socket);
      } else {
        const connection = strangers.connectionOf(socket);
        if (connection === undefined) return void socket.destroy();
        strangers.secured(socket);
        joins.begin(connection);
        joining.emit("connection", socket);
      }
    },
  );
  for (const server of [publicTls, agentTls]) {
    server.on("tlsClientError", (_err, socket: TLSSocket) => socket.destroy());
  }

  const tcp = createTcp((socket) => {
    strangers.admit(socket);
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.setNoDelay(true);
    const onPlain = (): void => strangers.secured(socket);
    route(socket, { plain, publicTls, agentTls, onPlain, passOn: options.passOn });
  });
  await bind(tcp, options);
  return {
    address: addressOf(tcp),
    setCertificates: ({ certificate, agentCertificate }) => {
      publicTls.setSecureContext({ ...certificate });
      agentTls.setSecureContext({ ...agentCertificate, ca: options.agentCa });
    },
    dropStrangers: () => {
      for (const socket of agents) if (!options.isAgent(socket)) socket.destroy();
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => tcp.close(() => resolve()));
      http.close();
      plain.close();
      http2.close();
      joining.close();
      strangers.close();
      joins.close();
      http.closeIdleConnections();
      await answers.ended(options.drainMs ?? DRAIN_MS);
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}

interface Routes {
  readonly plain: HttpServer;
  readonly publicTls: Server;
  readonly agentTls: Server;
  /** There is no handshake to wait for. */
  readonly onPlain: () => void;
  readonly passOn: ListenerOptions["passOn"];
}

function route(socket: Socket, to: Routes): void {
  let seen: Buffer = Buffer.alloc(0);
  const onReadable = (): void => {
    const chunk = socket.read() as Buffer | null;
    if (chunk === null) return;
    seen = seen.length === 0 ? chunk : Buffer.concat([seen, chunk]);
    const peek = peekConnection(seen);
    if (peek.kind === "more") return;
    socket.off("readable", onReadable);
    socket.pause();
    const passOn = peek.kind === "tls" && peek.serverName !== "" ? to.passOn(peek.serverName) : undefined;
    if (passOn !== undefined) {
      to.onPlain();
      passOn(socket, seen);
      return;
    }
    socket.unshift(seen);
    if (peek.kind === "plain") to.onPlain();
    const target = peek.kind === "plain" ? to.plain : wantsOnlyH2(peek.alpn) ? to.agentTls : to.publicTls;
    target.emit("connection", socket);
    if (peek.kind === "plain") socket.resume();
  };
  socket.on("readable", onReadable);
}

function bind(server: Server, { host, port }: { host: string; port: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause: NodeJS.ErrnoException) => {
      const why =
        cause.code === "EADDRINUSE"
          ? "something else listens there; stop it or choose another with --listen ADDR:PORT"
          : cause.message;
      reject(new AppError("config.invalid", `cannot listen on ${host}:${port}: ${why}`, { cause }));
    });
    server.listen(port, host, 1024, () => resolve());
  });
}

function addressOf(server: Server): AddressInfo {
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("a TCP server has an address");
  return address;
}
