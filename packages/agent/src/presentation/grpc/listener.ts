// The agent's own port: TLS 1.3, h2, only for servers of this cluster.
import { createSecureServer } from "node:http2";
import type { TLSSocket } from "node:tls";
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

export async function listenForServers(
  deps: AgentServiceDeps & {
    readonly address: string;
    readonly port: number;
    readonly tls: ListenerTls;
    readonly strangers?: StrangerLimits;
  },
): Promise<AgentListener> {
  const handle = connectNodeAdapter({
    grpc: true,
    grpcWeb: false,
    connect: false,
    readMaxBytes: 64 * 1024 * 1024,
    routes: (router) => router.service(AgentService, createAgentService(deps)),
  });
  const server = createSecureServer({
    ...secure(deps.tls),
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: "TLSv1.3",
  });
  // Whoever does not turn out to be a server in time goes, other nodes with good certificates too.
  const strangers = new Strangers({ limits: deps.strangers ?? STRANGER_LIMITS, clock: systemClock });
  server.on("connection", (socket) => strangers.admit(socket));
  server.on("secureConnection", (socket) => {
    if (isServer(socket)) strangers.proven(socket);
  });
  server.on("request", (request, response) => {
    if (isServer(request.socket)) {
      handle(request, response);
      return;
    }
    response.writeHead(403);
    response.end();
  });
  const sessions = new Set<{ destroy(): void }>();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session));
    // A peer that vanishes is not this server's failure.
    session.on("error", () => session.destroy());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) =>
      reject(
        new AppError(
          "internal.error",
          `agent cannot listen on ${deps.address}:${deps.port}: ${cause.message}`,
          { cause },
        ),
      ),
    );
    server.listen(deps.port, deps.address, resolve);
  });
  return {
    port: (server.address() as AddressInfo).port,
    setTls: (tls) => server.setSecureContext(secure(tls)),
    close: async () => {
      strangers.close();
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const session of sessions) session.destroy();
      await closed;
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
