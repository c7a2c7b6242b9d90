// TLS with a server that is trusted by its CA, or by the fingerprint of its certificate and then by nothing else.
import { Agent, type AgentOptions } from "node:https";
import type { Duplex } from "node:stream";
import {
  checkServerIdentity,
  connect,
  type ConnectionOptions,
  type PeerCertificate,
  type TLSSocket,
} from "node:tls";
import { given } from "@gpve/contracts/given.ts";
import { hasForeignRole } from "@gpve/contracts/certificate-roles.ts";
import { AppError } from "@gpve/contracts/errors.ts";

export interface Trust {
  readonly ca: string | undefined;
  readonly fingerprint: string | undefined;
}

/** Checks the certificate before the first byte of a request is written. */
export class PinningAgent extends Agent {
  readonly #trust: Trust;

  constructor(trust: Trust, options: AgentOptions) {
    super(options);
    this.#trust = trust;
  }

  override createConnection(
    options: ConnectionOptions,
    callback?: (err: Error | null, stream: Duplex) => void,
  ): Duplex | null | undefined {
    const trust = this.#trust;
    const host = options.host ?? "localhost";
    const isName = !/^[\d.]+$|:/.test(host);
    const socket = connect({
      host,
      port: Number(options.port),
      ...(isName ? { servername: host } : {}),
      ALPNProtocols: ["http/1.1"],
      rejectUnauthorized: false,
      ...given({ ca: trust.ca }),
    });
    const fail = (err: Error): void => {
      socket.destroy();
      callback?.(err, socket);
    };
    socket.once("error", fail);
    socket.once("secureConnect", () => {
      socket.off("error", fail);
      const distrust = distrustOf(socket, host, trust);
      if (distrust === undefined) callback?.(null, socket);
      else fail(distrust);
    });
    return undefined;
  }
}

function distrustOf(socket: TLSSocket, host: string, trust: Trust): Error | undefined {
  const certificate = socket.getPeerCertificate();
  const why =
    trust.fingerprint === undefined
      ? notVouchedFor(socket, host, certificate)
      : normalFingerprint(certificate.fingerprint256) === trust.fingerprint
        ? undefined
        : "its certificate is not the pinned one";
  if (why === undefined) return undefined;
  const seen = certificate.fingerprint256;
  return new AppError("node.unavailable", `refused to talk to ${host}: ${why}; it shows SHA-256 ${seen}`, {
    data: { host, fingerprint: seen, untrusted: true },
  });
}

function notVouchedFor(socket: TLSSocket, host: string, certificate: PeerCertificate): string | undefined {
  const chain = socket.authorized ? checkServerIdentity(host, certificate) : socket.authorizationError;
  if (chain !== undefined) {
    return `its certificate is not trusted (${chain instanceof Error ? chain.message : String(chain)})`;
  }
  const role = certificate.subject.O;
  return hasForeignRole(role) ? `its certificate is one of ${String(role)}, not of a server` : undefined;
}

export function normalFingerprint(text: string | undefined): string | undefined {
  if (text === undefined || text === "") return undefined;
  const hex = text
    .replace(/^sha256[:/ ]/i, "")
    .replaceAll(":", "")
    .toLowerCase();
  if (!/^[0-9a-f]{64}$/.test(hex)) {
    throw new AppError("config.invalid", `"${text}" is not a SHA-256 fingerprint (64 hex digits)`);
  }
  return hex;
}
