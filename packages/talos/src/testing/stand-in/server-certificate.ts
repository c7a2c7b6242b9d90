// The certificate that a machine shows: its own before it has a configuration, the cluster's after.
import "reflect-metadata";
import { KeyObject, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import type { CertificateAndKey } from "../../secrets/bundle.ts";
import { readKeyPem } from "../../secrets/key-pem.ts";

const algorithm = { name: "Ed25519" };
const DAY_MS = 86_400_000;

/** `authority`: undefined for one that the machine signs itself. */
export async function serverCertificate(
  names: readonly string[],
  authority: CertificateAndKey | undefined,
  now: number,
): Promise<CertificateAndKey> {
  const keys = (await webcrypto.subtle.generateKey(algorithm, true, [
    "sign",
    "verify",
  ])) as webcrypto.CryptoKeyPair;
  const ca = authority === undefined ? undefined : new x509.X509Certificate(authority.crt);
  const signingKey =
    authority === undefined
      ? keys.privateKey
      : readKeyPem(authority.key, "Talos' authority").toCryptoKey(algorithm, true, ["sign"]);
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: "40",
      subject: [{ CN: [names[0] ?? "talos"] }],
      issuer: ca === undefined ? [{ CN: [names[0] ?? "talos"] }] : ca.subjectName,
      notBefore: new Date(now - DAY_MS),
      notAfter: new Date(now + DAY_MS),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey,
      extensions: [
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        // Two authorities of a cluster have the same name: this tells whose it is.
        ...authorityKeyIdentifier(ca),
        new x509.SubjectAlternativeNameExtension(
          names.map((value) => ({
            type: /^[\d.]+$/.test(value) ? ("ip" as const) : ("dns" as const),
            value,
          })),
        ),
      ],
    },
    webcrypto,
  );
  return {
    crt: certificate.toString("pem"),
    key: KeyObject.from(keys.privateKey).export({ type: "pkcs8", format: "pem" }) as string,
  };
}

function authorityKeyIdentifier(ca: x509.X509Certificate | undefined): x509.Extension[] {
  const id = ca?.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId;
  return id === undefined ? [] : [new x509.AuthorityKeyIdentifierExtension(id)];
}
