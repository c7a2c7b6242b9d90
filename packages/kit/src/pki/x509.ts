// Certificates on WebCrypto: one curve (P-256), one library, no files. Who keeps what is decided elsewhere.
import "reflect-metadata";
import { X509Certificate as NodeCertificate, createHash, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { AGENT_ROLE, SERVER_ROLE } from "@gpve/contracts/certificate-roles.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { alternativeName, CURVE, isAddress, newSerialNumber } from "./certificate-parts.ts";

const DAY_MS = 86_400_000;

export { AGENT_ROLE, SERVER_ROLE };

export interface CertificateAuthority {
  readonly certPem: string;
  readonly key: webcrypto.CryptoKey;
}

export interface KeyPair {
  readonly keys: webcrypto.CryptoKeyPair;
  /** PKCS #8, PEM. */
  readonly keyPem: string;
}

export interface CertificateFacts {
  readonly commonName: string;
  readonly role: string;
  readonly notBefore: number;
  readonly notAfter: number;
  /** "AA:BB:..", SHA-256 of the DER form, as PVE shows it. */
  readonly fingerprint: string;
}

export async function createKeyPair(): Promise<KeyPair> {
  const keys = await webcrypto.subtle.generateKey(CURVE, true, ["sign", "verify"]);
  return { keys, keyPem: await privateKeyPem(keys.privateKey) };
}

export async function loadKeyPair(keyPem: string): Promise<KeyPair> {
  const privateKey = await loadPrivateKey(keyPem);
  const jwk = await webcrypto.subtle.exportKey("jwk", privateKey);
  const { d: _secret, key_ops: _ops, ...publicJwk } = jwk;
  const publicKey = await webcrypto.subtle.importKey("jwk", publicJwk, CURVE, true, ["verify"]);
  return { keys: { privateKey, publicKey }, keyPem };
}

export async function privateKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await webcrypto.subtle.exportKey("pkcs8", key), "PRIVATE KEY");
}

export async function loadPrivateKey(keyPem: string): Promise<webcrypto.CryptoKey> {
  const [der] = x509.PemConverter.decode(keyPem);
  if (der === undefined) throw new AppError("request.invalid", "no private key in PEM text");
  return webcrypto.subtle.importKey("pkcs8", der, CURVE, true, ["sign"]);
}

export async function createAuthority(name: string, now: number): Promise<CertificateAuthority> {
  const { keys } = await createKeyPair();
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: newSerialNumber(),
      name: [{ O: ["gpve"] }, { CN: [name] }],
      notBefore: new Date(now - DAY_MS),
      notAfter: new Date(now + 3650 * DAY_MS),
      signingAlgorithm: CURVE,
      keys,
      extensions: [
        new x509.BasicConstraintsExtension(true, 0, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
        await x509.SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return { certPem: certificate.toString("pem"), key: keys.privateKey };
}

export type IssueRequest = {
  readonly commonName: string;
  readonly days: number;
  readonly now: number;
} & (
  | {
      readonly role: typeof SERVER_ROLE;
      /** Host names and IP addresses. */
      readonly names: readonly string[];
    }
  // A node is known by its name alone: an address on its certificate would let it stand in for whoever has that one.
  | { readonly role: typeof AGENT_ROLE }
);

export async function issue(
  authority: CertificateAuthority,
  publicKey: webcrypto.CryptoKey,
  request: IssueRequest,
): Promise<string> {
  const ca = new x509.X509Certificate(authority.certPem);
  const names = [...new Set(request.role === SERVER_ROLE ? request.names : [])].map(alternativeName);
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: newSerialNumber(),
      subject: [{ O: [request.role] }, { CN: [request.commonName] }],
      issuer: ca.subjectName,
      // An hour of slack for clocks that are a little behind.
      notBefore: new Date(request.now - 3_600_000),
      notAfter: new Date(request.now + request.days * DAY_MS),
      signingAlgorithm: CURVE,
      publicKey,
      signingKey: authority.key,
      extensions: [
        new x509.BasicConstraintsExtension(false, undefined, true),
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([
          x509.ExtendedKeyUsage.serverAuth,
          x509.ExtendedKeyUsage.clientAuth,
        ]),
        ...(names.length > 0 ? [new x509.SubjectAlternativeNameExtension(names)] : []),
        await x509.AuthorityKeyIdentifierExtension.create(ca, false, webcrypto),
        await x509.SubjectKeyIdentifierExtension.create(publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return certificate.toString("pem");
}

export async function createRequest(pair: KeyPair, commonName: string): Promise<string> {
  const request = await x509.Pkcs10CertificateRequestGenerator.create(
    { name: [{ CN: [commonName] }], keys: pair.keys, signingAlgorithm: CURVE },
    webcrypto,
  );
  return request.toString("pem");
}

/** Parses a PKCS #10 request and proves that its sender holds the key. The subject is not to be trusted. */
export async function readRequest(
  pem: string,
): Promise<{ key: webcrypto.CryptoKey; keyFingerprint: string }> {
  try {
    const request = new x509.Pkcs10CertificateRequest(pem);
    if (await request.verify(webcrypto)) {
      const key = await request.publicKey.export(CURVE, ["verify"], webcrypto);
      return { key, keyFingerprint: hex(new Uint8Array(request.publicKey.rawData)) };
    }
  } catch (cause) {
    throw new AppError("request.invalid", "certificate request is not readable PKCS #10 for a P-256 key", {
      cause,
    });
  }
  throw new AppError("request.invalid", "certificate request is not signed by its own key");
}

export function readCertificate(pem: string): CertificateFacts {
  const certificate = new NodeCertificate(pem);
  return {
    commonName: subjectField(certificate.subject, "CN"),
    role: subjectField(certificate.subject, "O"),
    notBefore: Date.parse(certificate.validFrom),
    notAfter: Date.parse(certificate.validTo),
    fingerprint: certificate.fingerprint256,
  };
}

/** True when a client that dials `name` (host name or address) would accept the certificate. */
export function covers(certPem: string, name: string): boolean {
  const certificate = new NodeCertificate(certPem);
  return (isAddress(name) ? certificate.checkIP(name) : certificate.checkHost(name)) !== undefined;
}

/** Host names and addresses that it is good for. */
export function namesOn(certPem: string): readonly string[] {
  return (new NodeCertificate(certPem).subjectAltName ?? "")
    .split(", ")
    .flatMap((entry) => /^(?:DNS|IP Address):(.+)$/.exec(entry)?.[1] ?? []);
}

/** Rotation starts when less than a third of the lifetime is left. */
export function dueForRenewal(facts: CertificateFacts, now: number): boolean {
  return facts.notAfter - now < (facts.notAfter - facts.notBefore) / 3;
}

/** True when `certPem` carries a valid signature of `caPem`. */
export function isSignedBy(certPem: string, caPem: string): boolean {
  const certificate = new NodeCertificate(certPem);
  const ca = new NodeCertificate(caPem);
  return certificate.checkIssued(ca) && certificate.verify(ca.publicKey);
}

/** True when key and certificate belong together. */
export async function isPair(certPem: string, pair: KeyPair): Promise<boolean> {
  const spki = new Uint8Array(await webcrypto.subtle.exportKey("spki", pair.keys.publicKey));
  const own = new NodeCertificate(certPem).publicKey.export({ type: "spki", format: "der" });
  return Buffer.compare(own, Buffer.from(spki)) === 0;
}

function subjectField(subject: string, field: string): string {
  const line = subject.split("\n").find((entry) => entry.startsWith(`${field}=`));
  return line?.slice(field.length + 1) ?? "";
}

function hex(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
