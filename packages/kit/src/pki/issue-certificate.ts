// Certificates for others' programs, such as those of a Kubernetes cluster: subject, use and names are the caller's.
import "reflect-metadata";
import { webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { alternativeName, CURVE, newSerialNumber } from "./certificate-parts.ts";
import { type CertificateAuthority, createKeyPair } from "./x509.ts";

export interface CertificateRequest {
  readonly commonName: string;
  readonly organisation?: string;
  readonly usage: "server" | "client" | "both";
  /** Host names and addresses. */
  readonly names?: readonly string[];
  readonly now: number;
  readonly lifetimeMs: number;
}

export interface IssuedCertificate {
  readonly certPem: string;
  readonly keyPem: string;
}

export async function issueCertificate(
  authority: CertificateAuthority,
  request: CertificateRequest,
): Promise<IssuedCertificate> {
  const { commonName, organisation, usage, names = [], now, lifetimeMs } = request;
  const { keys, keyPem } = await createKeyPair();
  const ca = new x509.X509Certificate(authority.certPem);
  const { serverAuth, clientAuth } = x509.ExtendedKeyUsage;
  const alternatives = [...new Set(names)].map(alternativeName);
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: newSerialNumber(),
      subject: [...(organisation === undefined ? [] : [{ O: [organisation] }]), { CN: [commonName] }],
      issuer: ca.subjectName,
      // An hour of slack for clocks that are a little behind.
      notBefore: new Date(now - 3_600_000),
      notAfter: new Date(now + lifetimeMs),
      signingAlgorithm: CURVE,
      publicKey: keys.publicKey,
      signingKey: authority.key,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(
          x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyEncipherment,
          true,
        ),
        new x509.ExtendedKeyUsageExtension([
          ...(usage === "client" ? [] : [serverAuth]),
          ...(usage === "server" ? [] : [clientAuth]),
        ]),
        ...(alternatives.length > 0 ? [new x509.SubjectAlternativeNameExtension(alternatives)] : []),
        await x509.AuthorityKeyIdentifierExtension.create(ca, false, webcrypto),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return { certPem: certificate.toString("pem"), keyPem };
}

export async function publicKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey("spki", key), "PUBLIC KEY");
}
