// Certificates for others' programs, such as those of a Kubernetes cluster: subject, use and names are the caller's.
import "reflect-metadata";
import { webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { type CertificateAuthority, createKeyPair } from "./x509.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };

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
  const alternatives = [...new Set(names)].map((value) => ({
    type: /^\d+\.\d+\.\d+\.\d+$/.test(value) || value.includes(":") ? ("ip" as const) : ("dns" as const),
    value,
  }));
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: serialNumber(),
      subject: [...(organisation === undefined ? [] : [{ O: [organisation] }]), { CN: [commonName] }],
      issuer: ca.subjectName,
      // An hour of slack for clocks that are a little behind.
      notBefore: new Date(now - 3_600_000),
      notAfter: new Date(now + lifetimeMs),
      signingAlgorithm: algorithm,
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

/** Positive, and never the same twice. */
function serialNumber(): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(16));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return Buffer.from(bytes).toString("hex");
}

export async function publicKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey("spki", key), "PUBLIC KEY");
}
