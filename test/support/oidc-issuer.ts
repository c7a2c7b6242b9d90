// An OpenID issuer on an address of this machine that is not its loopback: discovery and keys by https, and tokens signed with
// RS256, as the large ones have them.
import { createSign, generateKeyPairSync, type KeyObject } from "node:crypto";
import { createServer, type Server } from "node:https";
import { exec } from "@gpve/kit/exec.ts";
import { issueCertificate } from "@gpve/kit/pki/issue-certificate.ts";
import { createAuthority } from "@gpve/kit/pki/x509.ts";

const PORT = 9_443;

export class OidcIssuer {
  readonly url: string;
  /** Who signed its certificate. */
  readonly ca: string;
  readonly #server: Server;
  readonly #key: KeyObject;
  readonly #device: string;

  private constructor(parts: { url: string; ca: string; server: Server; key: KeyObject; device: string }) {
    this.url = parts.url;
    this.ca = parts.ca;
    this.#server = parts.server;
    this.#key = parts.key;
    this.#device = parts.device;
  }

  static async start(): Promise<OidcIssuer> {
    const device = `gpveo${process.pid % 100_000}`;
    const address = `198.19.${(process.pid >> 8) % 256}.${1 + (process.pid % 254)}`;
    await exec("ip", ["link", "add", "name", device, "type", "bridge"]);
    await exec("ip", ["address", "add", `${address}/32`, "dev", device]);
    await exec("ip", ["link", "set", "dev", device, "up"]);
    const now = Date.now();
    const authority = await createAuthority("issuer", now);
    const request = {
      commonName: "issuer",
      usage: "server",
      names: [address],
      now,
      lifetimeMs: 3_600_000,
    } as const;
    const { certPem, keyPem } = await issueCertificate(authority, request);
    const { publicKey, privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const url = `https://${address}:${PORT}/realms/test`;
    const answers: Readonly<Record<string, unknown>> = {
      "/realms/test/.well-known/openid-configuration": {
        issuer: url,
        jwks_uri: `${url}/keys`,
        authorization_endpoint: `${url}/auth`,
        token_endpoint: `${url}/token`,
        response_types_supported: ["code"],
        subject_types_supported: ["public"],
        id_token_signing_alg_values_supported: ["RS256"],
      },
      "/realms/test/keys": {
        keys: [{ ...publicKey.export({ format: "jwk" }), kid: "one", use: "sig", alg: "RS256" }],
      },
    };
    const server = createServer({ cert: certPem, key: keyPem }, (asked, response) => {
      const found = answers[asked.url ?? ""];
      response.writeHead(found === undefined ? 404 : 200, { "Content-Type": "application/json" });
      response.end(JSON.stringify(found ?? {}));
    });
    await new Promise<void>((resolve) => {
      server.listen(PORT, address, resolve);
    });
    return new OidcIssuer({ url, ca: authority.certPem, server, key: privateKey, device });
  }

  /** What it says of somebody, for `aud`, for an hour. */
  token(claims: Readonly<Record<string, unknown>>, aud = "kube"): string {
    const now = Math.floor(Date.now() / 1_000);
    const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString("base64url");
    const head = part({ alg: "RS256", typ: "JWT", kid: "one" });
    const signed = `${head}.${part({ iss: this.url, aud, iat: now, exp: now + 3_600, ...claims })}`;
    return `${signed}.${createSign("RSA-SHA256").update(signed).sign(this.#key).toString("base64url")}`;
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await exec("ip", ["link", "delete", "dev", this.#device]);
  }
}
