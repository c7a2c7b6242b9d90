// A machine of Talos for tests, on real TLS and gRPC: anybody may give it its first configuration, and after that only
// clients of its cluster get through the handshake.
import { once } from "node:events";
import { createSecureServer, type Http2SecureServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { X509Certificate } from "node:crypto";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { createContextValues } from "@connectrpc/connect";
import { given } from "@gpve/contracts/given.ts";
import { publicKeyFingerprint } from "../../client/talos-connection.ts";
import type { CertificateAndKey } from "../../secrets/bundle.ts";
import { type AppliedConfig, authorityOf } from "./applied-config.ts";
import { MachineState, type MachineFacts } from "./machine-state.ts";
import { machineRoutes, rolesKey } from "./machine-routes.ts";
import { serverCertificate } from "./server-certificate.ts";

export interface StandInOptions extends MachineFacts {
  /** Workers have no key of their own authority: a control plane signs for them. */
  readonly authority?: CertificateAndKey;
  readonly kubeconfig?: string;
  /** What a snapshot of etcd holds beside its members. */
  readonly etcdContent?: () => Promise<string>;
  /** Where it listens; 127.0.0.1 unless said. */
  readonly host?: string;
  readonly faults?: StandInFaults;
  /** Addresses it is reached by beside that. */
  readonly addresses?: readonly string[];
}

export interface StandInFaults {
  /** Every so many connections one is cut before its handshake. */
  readonly cutsEvery?: number;
  /** How long nobody listens while it boots. */
  readonly bootMs?: number;
}

export class TalosStandIn {
  readonly machine: MachineState;
  readonly #options: StandInOptions;
  readonly #sessions = new Set<ServerHttp2Session>();
  #server: Http2SecureServer | undefined;
  #port = 0;
  #connections = 0;
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
    return `${this.#options.host ?? "127.0.0.1"}:${this.#port}`;
  }

  get port(): number {
    return this.#port;
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

  #boot(): void {
    this.#again(() => this.machine.boot());
  }

  /** After the answer has gone out. */
  #again(meanwhile: () => void): void {
    this.#booting = (async () => {
      await new Promise((done) => setTimeout(done, 20));
      await this.#close();
      meanwhile();
      await new Promise((done) => setTimeout(done, this.#options.faults?.bootMs ?? 0));
      await this.#listen();
    })();
  }

  async #listen(): Promise<void> {
    const { config, hostname } = this.machine;
    const authority = config === undefined ? undefined : (authorityOf(config) ?? this.#options.authority);
    const names = [hostname, "localhost", "127.0.0.1", ...(this.#options.addresses ?? [])];
    const { crt, key } = await serverCertificate(names, authority, Date.now());
    this.#fingerprint = publicKeyFingerprint(new X509Certificate(crt));
    const routes = machineRoutes(this.machine, {
      boot: () => this.#boot(),
      // As real ones do: without a boot, with another certificate and other clients.
      applied: () => {
        if (trustText(this.machine.config) !== trustText(config)) this.#again(() => undefined);
      },
      kubeconfig: this.#options.kubeconfig ?? "apiVersion: v1\nkind: Config\n",
      ...given({ etcdContent: this.#options.etcdContent }),
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
      config === undefined
        ? {}
        : { ca: [config.ca.crt, ...config.accepted], requestCert: true, rejectUnauthorized: true };
    const server = createSecureServer({ cert: crt, key, minVersion: "TLSv1.2", ...known }, handler);
    server.on("session", (session) => {
      this.#sessions.add(session);
      session.once("close", () => this.#sessions.delete(session));
    });
    server.on("connection", (socket: Socket) => {
      const every = this.#options.faults?.cutsEvery ?? 0;
      this.#connections += 1;
      if (every > 0 && this.#connections % every === 0) socket.destroy();
    });
    server.listen(this.#port, this.#options.host ?? "127.0.0.1");
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

const trustText = (config: AppliedConfig | undefined): string =>
  JSON.stringify([config?.ca.crt, ...(config?.accepted ?? [])]);

/** Talos keeps roles in the certificate, as organizations. */
function rolesOf(socket: TLSSocket): readonly string[] {
  const organization = socket.getPeerCertificate().subject.O as unknown;
  return Array.isArray(organization) ? (organization as string[]) : [String(organization)];
}
