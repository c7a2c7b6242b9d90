// TLS to a machine. Configured ones are known by the cluster's authority; one in maintenance has a certificate that it
// made itself, and is known by the fingerprint that its console shows.
import { createHash, type X509Certificate } from "node:crypto";
import { once } from "node:events";
import { isIP } from "node:net";
import { connect, type ConnectionOptions, type TLSSocket } from "node:tls";
import { createGrpcTransport } from "@connectrpc/connect-node";
import type { Transport } from "@connectrpc/connect";
import { AppError } from "@gpve/contracts/errors.ts";
import { Http2Sessions } from "@gpve/kit/grpc/http2-sessions.ts";
import { readKeyPem } from "../secrets/key-pem.ts";
import type { Dial, DialPlace } from "./ssh-jump.ts";

export type TalosTrust =
  | {
      readonly kind: "cluster";
      /** PEM, as in talosconfig. */
      readonly ca: string;
      readonly crt: string;
      readonly key: string;
    }
  /** Base64 of SHA-256 over the public key, as Talos prints it. */
  | { readonly kind: "fingerprint"; readonly fingerprint: string }
  /** Whoever answers: for a network where nobody else can. */
  | { readonly kind: "anyone" };

export interface TalosConnection {
  readonly transport: Transport;
  close(): void;
}

const PORT = 50_000;
const CONNECT_TIMEOUT_MS = 10_000;

/** `address`: "10.0.0.10" or "127.0.0.1:50001"; `dial`: how it is reached where it is not routed from here. */
export async function openConnection(
  address: string,
  trust: TalosTrust,
  dial?: Dial,
): Promise<TalosConnection> {
  const place = placeOf(address);
  const url = `https://${isIP(place.host) === 6 ? `[${place.host}]` : place.host}:${place.port}`;
  const tls = await tlsOptions(place, trust, dial);
  const manager = new Http2Sessions(
    url,
    { pingIntervalMs: 10_000, pingTimeoutMs: 5_000 },
    {
      minVersion: "TLSv1.2",
      ...tls,
      ...(dial === undefined ? {} : { createConnection: () => secured(place, tls, dial) }),
    },
  );
  return {
    transport: createGrpcTransport({ baseUrl: url, sessionManager: manager }),
    close: () => manager.abort(),
  };
}

function secured(place: DialPlace, tls: ConnectionOptions, dial: Dial | undefined): TLSSocket {
  const { host, port } = place;
  const way = dial === undefined ? { host, port } : { host, socket: dial(place) };
  return connect({ minVersion: "TLSv1.2", ALPNProtocols: ["h2"], ...tls, ...way });
}

async function tlsOptions(
  place: DialPlace,
  trust: TalosTrust,
  dial: Dial | undefined,
): Promise<ConnectionOptions> {
  switch (trust.kind) {
    case "cluster":
      return { ca: trust.ca, cert: trust.crt, key: plainKey(trust.key) };
    case "anyone":
      return { rejectUnauthorized: false };
    case "fingerprint": {
      // Node asks nobody about a certificate that nobody known has signed. So it is looked at first, and then it alone
      // is trusted: whoever answers the second time has its key.
      const certificate = await shownCertificate(place, dial);
      const seen = publicKeyFingerprint(certificate);
      if (seen !== trust.fingerprint) {
        throw new AppError(
          "auth.failed",
          `the machine at ${place.host}:${place.port} has the fingerprint ${seen}, not ${trust.fingerprint}: another machine answers there`,
          { data: { address: place.host, seen } },
        );
      }
      const ca = certificate.toString();
      return { ca, allowPartialTrustChain: true, checkServerIdentity: () => undefined };
    }
  }
}

/** Of whoever answers now, for trust in the same machine a moment later. */
export async function seenFingerprint(address: string, dial?: Dial): Promise<string> {
  return publicKeyFingerprint(await shownCertificate(placeOf(address), dial));
}

/** Nothing is said to the machine but that we are there. */
async function shownCertificate(place: DialPlace, dial: Dial | undefined): Promise<X509Certificate> {
  const { host, port } = place;
  const socket = secured(place, { rejectUnauthorized: false }, dial);
  try {
    await once(socket, "secureConnect", { signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS) });
    const certificate = socket.getPeerX509Certificate();
    if (certificate !== undefined) return certificate;
    throw new AppError("node.unavailable", `the machine at ${host}:${port} shows no certificate`);
  } catch (cause) {
    if (cause instanceof AppError) throw cause;
    throw new AppError("node.unavailable", `cannot connect to the machine at ${host}:${port}`, { cause });
  } finally {
    socket.destroy();
  }
}

/** Talos names the algorithm in the PEM's first line, which OpenSSL does not know. */
function plainKey(pem: string): string {
  return readKeyPem(pem, "the client's key").export({ type: "pkcs8", format: "pem" }) as string;
}

export function publicKeyFingerprint(certificate: X509Certificate): string {
  const spki = certificate.publicKey.export({ type: "spki", format: "der" });
  return createHash("sha256").update(spki).digest("base64");
}

function placeOf(address: string): DialPlace {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:]+))(?::(\d{1,5}))?$/.exec(address) ?? [];
  const host = bracketed ?? plain ?? (isIP(address) === 6 ? address : undefined);
  if (host === undefined) {
    throw new AppError("request.invalid", `"${address}" is no address of a machine`);
  }
  return { host, port: port === undefined ? PORT : Number(port) };
}
