// The agent's own port: TLS 1.3. Servers of this cluster speak h2; agents of other nodes bring guests, each known by the
// certificate that a server's note of the move names.
import { createSecureServer, type Http2ServerRequest, type ServerHttp2Session } from "node:http2";
import { createServer, type TLSSocket } from "node:tls";
import type { AddressInfo } from "node:net";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { AppError } from "@gpve/contracts/errors.ts";
import { AgentService } from "@gpve/contracts/gen/proto/gpve/agent/v1/agent_pb.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { Strangers, type StrangerLimits } from "@gpve/kit/net/strangers.ts";
import { SERVER_ROLE, readCertificate } from "@gpve/kit/pki/x509.ts";
import { createAgentService, type AgentServiceDeps } from "./agent-service.ts";

export interface ListenerTls {
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
}

export interface AgentListener {
  readonly port: number;
  /** New connections use the new certificate; open ones go on. */
  setTls(tls: ListenerTls): void;
  close(): Promise<void>;
}

/** Servers are few, and each has one connection or two. */
export const STRANGER_LIMITS: StrangerLimits = {
  perAddress: 32,
  inAll: 256,
  graceMs: 2_000,
  handshakeMs: 15_000,
};

/** For calls that are under way when the agent stops. */
const DRAIN_MS = 5_000;

export async function listenForServers(
  deps: AgentServiceDeps & {
    readonly address: string;
    readonly port: number;
    readonly tls: ListenerTls;
    readonly strangers?: StrangerLimits;
    readonly drainMs?: number;
    readonly moves?: {
      readonly protocol: string;
      accept(socket: TLSSocket, proven: () => void): void;
    };
  },
): Promise<AgentListener> {
  const handle = connectNodeAdapter({
    grpc: true,
    grpcWeb: false,
    connect: false,
    readMaxBytes: 64 * 1024 * 1024,
    routes: (router) => router.service(AgentService, createAgentService(deps)),
  });
  const { moves } = deps;
  const server = createSecureServer({ ...secure(deps.tls), requestCert: true, rejectUnauthorized: true });
  const front = createServer({
    ...secure(deps.tls),
    requestCert: true,
    // Agents have another authority, which agents do not know: who is let in is decided below.
    rejectUnauthorized: false,
    ALPNProtocols: ["h2", ...(moves === undefined ? [] : [moves.protocol])],
  });
  // Whoever does not turn out to be a server in time goes, other nodes with good certificates too.
  const strangers = new Strangers({ limits: deps.strangers ?? STRANGER_LIMITS, clock: systemClock });
  front.on("connection", (socket) => strangers.admit(socket));
  const moving = new Set<TLSSocket>();
  front.on("secureConnection", (socket) => {
    if (moves !== undefined && socket.alpnProtocol === moves.protocol) {
      moving.add(socket);
      socket.on("close", () => moving.delete(socket));
      moves.accept(socket, () => strangers.proven(socket));
      return;
    }
    if (!socket.authorized || socket.alpnProtocol !== "h2") {
      socket.destroy();
      return;
    }
    if (isServer(socket)) strangers.proven(socket);
    server.emit("secureConnection", socket);
  });
  // A line has the certificate that it began with: it is read once, not for every call.
  const lines = new WeakMap<object, boolean>();
  const isOfServer = ({ socket, stream: { session } }: Http2ServerRequest): boolean => {
    const isKnown = (session && lines.get(session)) ?? isServer(socket);
    if (session !== undefined) lines.set(session, isKnown);
    return isKnown;
  };
  server.on("request", (request, response) => {
    if (isOfServer(request)) {
      handle(request, response);
      return;
    }
    response.writeHead(403);
    response.end();
  });
  const sessions = new Set<ServerHttp2Session>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    // A peer that vanishes is not this server's failure.
    session.on("error", () => session.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    front.once("error", (cause) =>
      reject(
        new AppError(
          "internal.error",
          `agent cannot listen on ${deps.address}:${deps.port}: ${cause.message}`,
          { cause },
        ),
      ),
    );
    front.listen(deps.port, deps.address, resolve);
  });
  return {
    port: (front.address() as AddressInfo).port,
    setTls: (tls) => front.setSecureContext(secure(tls)),
    close: async () => {
      strangers.close();
      const closed = new Promise<void>((resolve) => front.close(() => resolve()));
      for (const socket of moving) socket.destroy();
      // Each tells its server to send no more, and ends with its last call.
      for (const session of sessions) session.close();
      const cut = setTimeout(() => {
        for (const session of sessions) session.destroy();
      }, deps.drainMs ?? DRAIN_MS);
      await closed;
      clearTimeout(cut);
    },
  };
}

function secure(tls: ListenerTls): { ca: string; cert: string; key: string; minVersion: "TLSv1.3" } {
  return { ca: tls.caPem, cert: tls.certPem, key: tls.keyPem, minVersion: "TLSv1.3" };
}

/** The chain is verified by TLS; this tells servers from other agents, whose certificates are also ours. */
function isServer(socket: unknown): boolean {
  const certificate = (socket as TLSSocket).getPeerX509Certificate();
  return certificate !== undefined && readCertificate(certificate.toString()).role === SERVER_ROLE;
}
