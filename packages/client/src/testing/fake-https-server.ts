// The scripted API on a real TLS socket, with a certificate of its own.
import "reflect-metadata";
import { createHash, webcrypto } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { createServer, type Server } from "node:https";
import type { AddressInfo } from "node:net";
import type { Duplex } from "node:stream";
import { fakeRequest, type FakeApi } from "./fake-api.ts";

export interface FakeHttpsServer {
  readonly url: string;
  readonly port: number;
  /** SHA-256, upper case with colons. */
  readonly fingerprint: string;
  readonly certificatePem: string;
  /** TCP connections accepted so far. */
  connections(): number;
  close(): Promise<void>;
}

type UpgradeHandler = (req: IncomingMessage, socket: Duplex, head: Buffer) => void;

/** `requestsPerConnection`: a connection that has served so many is cut when the next request comes. */
export async function startFakeHttpsServer(
  api: FakeApi,
  options: { requestsPerConnection?: number; onUpgrade?: UpgradeHandler } = {},
): Promise<FakeHttpsServer> {
  const served = new WeakMap<object, number>();
  const { certificatePem, keyPem, fingerprint } = await selfSigned();
  let connections = 0;
  const server: Server = createServer({ cert: certificatePem, key: keyPem }, (incoming, outgoing) => {
    const count = served.get(incoming.socket) ?? 0;
    served.set(incoming.socket, count + 1);
    if (count >= (options.requestsPerConnection ?? Number.POSITIVE_INFINITY)) {
      incoming.socket.destroy();
      return;
    }
    (async () => {
      const chunks: Buffer[] = [];
      for await (const chunk of incoming) chunks.push(chunk as Buffer);
      const headers = Object.fromEntries(
        Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]),
      );
      const asked = fakeRequest(
        incoming.method ?? "",
        incoming.url ?? "",
        headers,
        Buffer.concat(chunks).toString("utf8"),
      );
      const reply = await api.answer(asked);
      const reason = Buffer.from(reply.reason, "utf8").toString("latin1");
      outgoing.writeHead(reply.status, reason, reply.headers);
      for await (const piece of reply.pieces) outgoing.write(Buffer.from(piece, "utf8"));
      outgoing.end();
    })().catch(() => outgoing.destroy()); // a client that went away needs no answer
  });
  if (options.onUpgrade !== undefined) server.on("upgrade", options.onUpgrade);
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `https://127.0.0.1:${port}`,
    port,
    fingerprint,
    certificatePem,
    connections: () => connections,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

async function selfSigned(): Promise<{ certificatePem: string; keyPem: string; fingerprint: string }> {
  const x509 = await import("@peculiar/x509");
  const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      name: "CN=fake",
      keys: keys,
      signingAlgorithm: algorithm,
      notBefore: new Date(Date.now() - 3600_000),
      notAfter: new Date(Date.now() + 24 * 3600_000),
      extensions: [
        new x509.BasicConstraintsExtension(true),
        new x509.SubjectAlternativeNameExtension([
          { type: "ip", value: "127.0.0.1" },
          { type: "dns", value: "localhost" },
        ]),
      ],
    },
    webcrypto,
  );
  const der = Buffer.from(certificate.rawData);
  const hex = createHash("sha256").update(der).digest("hex").toUpperCase();
  const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey)).toString("base64");
  return {
    certificatePem: certificate.toString("pem"),
    keyPem: `-----BEGIN PRIVATE KEY-----\n${pkcs8}\n-----END PRIVATE KEY-----\n`,
    fingerprint: hex.match(/../g)?.join(":") ?? "",
  };
}
