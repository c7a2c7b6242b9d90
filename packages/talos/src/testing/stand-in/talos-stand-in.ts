// A machine of Talos for tests, on real TLS and gRPC: anybody may give it its first configuration, and after that only
// clients of its cluster get through the handshake.
import { once } from "node:events";
import { createSecureServer, type Http2SecureServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import type { TLSSocket } from "node:tls";
import { X509Certificate } from "node:crypto";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createContextValues } from "@connectrpc/connect";
import { publicKeyFingerprint } from "../../client/talos-connection.ts";
import type { CertificateAndKey } from "../../secrets/bundle.ts";
import { authorityOf } from "./applied-config.ts";
import { MachineState, type MachineFacts } from "./machine-state.ts";
import { machineRoutes, rolesKey } from "./machine-routes.ts";
import { serverCertificate } from "./server-certificate.ts";

export interface StandInOptions extends MachineFacts {
  /** Workers have no key of their own authority: a control plane signs for them. */
  readonly authority?: CertificateAndKey;
  readonly kubeconfig?: string;
}

export class TalosStandIn {
  readonly machine: MachineState;
  readonly #options: StandInOptions;
  readonly #sessions = new Set<ServerHttp2Session>();
  #server: Http2SecureServer | undefined;
  #port = 0;
  #booting: Promise<void> = Promise.resolve();
  #fingerprint = "";

  private constructor(options: StandInOptions) {
    this.#options = options;
    this.machine = new MachineState(options);
  }

  static async start(options: StandInOptions): Promise<TalosStandIn> {
    const standIn = new TalosStandIn(options);
    await standIn.#listen();
    return standIn;
  }

  get address(): string {
    return `127.0.0.1:${this.#port}`;
  }

  /** As the console shows it. */
  get fingerprint(): string {
    return this.#fingerprint;
  }

  /** Resolves when a boot that was begun is over. */
  settled(): Promise<void> {
    return this.#booting;
  }

  async stop(): Promise<void> {
    await this.#booting;
    await this.#close();
  }

  /** After the answer has gone out. */
  #boot(): void {
    this.#booting = (async () => {
      await new Promise((done) => setTimeout(done, 20));
      await this.#close();
      this.machine.boot();
      await this.#listen();
    })();
  }

  async #listen(): Promise<void> {
    const { config, hostname } = this.machine;
    const authority = config === undefined ? undefined : (authorityOf(config) ?? this.#options.authority);
    const names = [hostname, "localhost", "127.0.0.1"];
    const { crt, key } = await serverCertificate(names, authority, Date.now());
    this.#fingerprint = publicKeyFingerprint(new X509Certificate(crt));
    const routes = machineRoutes(this.machine, {
      boot: () => this.#boot(),
      kubeconfig: this.#options.kubeconfig ?? "apiVersion: v1\nkind: Config\n",
    });
    const handler = connectNodeAdapter({
      grpc: true,
      grpcWeb: false,
      connect: false,
      routes,
      contextValues: (request) =>
        createContextValues().set(
          rolesKey,
          config === undefined ? ["os:reader"] : rolesOf(request.socket as TLSSocket),
        ),
    });
    const known =
      config === undefined ? {} : { ca: config.ca.crt, requestCert: true, rejectUnauthorized: true };
    const server = createSecureServer({ cert: crt, key, minVersion: "TLSv1.2", ...known }, handler);
    server.on("session", (session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    this.#port = (server.address() as AddressInfo).port;
    this.#server = server;
  }

  async #close(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = once(server, "close");
    server.close();
    for (const session of this.#sessions) session.destroy();
    await closed;
  }
}

/** Talos keeps roles in the certificate, as organizations. */
function rolesOf(socket: TLSSocket): readonly string[] {
  const organization = socket.getPeerCertificate().subject.O as unknown;
  return Array.isArray(organization) ? (organization as string[]) : [String(organization)];
}
