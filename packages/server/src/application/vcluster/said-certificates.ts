// Certificates and keys that a request brings along. An API server that is told what it cannot read does not start, and says so to
// nobody but its log.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { ExternalEtcdKeys } from "@gpve/domain/vcluster/backing-store.ts";
import { invalidSpec } from "@gpve/domain/vcluster/invalid-spec.ts";
import type { OidcIssuer } from "@gpve/domain/vcluster/issuer.ts";

const KEYS = "controlPlane.externalEtcdCertificates";
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g;

export function requireReadable(said: {
  readonly oidc?: OidcIssuer;
  readonly externalKeys: ExternalEtcdKeys | undefined;
}): void {
  const { ca } = said.oidc ?? {};
  if (ca !== undefined) certificates("controlPlane.oidc.ca", ca);
  if (said.externalKeys === undefined) return;
  const { ca: authority, cert, key } = said.externalKeys;
  certificates(`${KEYS}.ca`, authority);
  const own = certificates(`${KEYS}.cert`, cert);
  const isPair = parsed(`${KEYS}.key`, "no private key that can be used without a password", () =>
    own.checkPrivateKey(createPrivateKey(key)),
  );
  if (!isPair) throw invalidSpec(`${KEYS}.key`, "is not the key of the certificate in cert");
}

/** Answers with the first. */
function certificates(field: string, pem: string): X509Certificate {
  const why = "no certificate in PEM form";
  const all = [...pem.matchAll(CERTIFICATE)].map(([text]) =>
    parsed(field, why, () => new X509Certificate(text)),
  );
  return all[0] ?? parsed(field, why, () => new X509Certificate(pem));
}

function parsed<T>(field: string, why: string, parse: () => T): T {
  try {
    return parse();
  } catch (cause) {
    throw invalidSpec(field, `has ${why} (${messageOf(cause)})`);
  }
}
