// Certificate authorities as Talos makes them, and the client certificates they sign.
import "reflect-metadata";
import { X509Certificate as NodeCertificate, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CertificateAndKey } from "./bundle.ts";
import { readKeyPem, writeKeyPem } from "./key-pem.ts";

const HOUR_MS = 3_600_000;
const AUTHORITY_LIFETIME_MS = 87_600 * HOUR_MS;
const ecdsa = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const ed25519 = { name: "Ed25519" };

export type KeyKind = "ecdsa" | "ed25519";

const algorithms = { ecdsa, ed25519 } as const;

export interface AuthorityRequest {
  /** undefined: the subject stays empty, as that of the aggregator's authority. */
  readonly organization: string | undefined;
  readonly keyKind: KeyKind;
  readonly now: number;
}

export async function createAuthority(request: AuthorityRequest): Promise<CertificateAndKey> {
  const algorithm = algorithms[request.keyKind];
  const keys = await generateKeys(request.keyKind);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: randomHex(16),
      name: request.organization === undefined ? [] : [{ O: [request.organization] }],
      ...validity(request.now, AUTHORITY_LIFETIME_MS),
      signingAlgorithm: algorithm,
      keys,
      extensions: [
        new x509.KeyUsagesExtension(
          x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyCertSign,
          true,
        ),
        new x509.ExtendedKeyUsageExtension([
          x509.ExtendedKeyUsage.serverAuth,
          x509.ExtendedKeyUsage.clientAuth,
        ]),
        new x509.BasicConstraintsExtension(true, undefined, true),
        new x509.SubjectKeyIdentifierExtension(randomHex(20)),
      ],
    },
    webcrypto,
  );
  return { crt: certificatePem(certificate), key: writeKeyPem(keys.privateKey) };
}

export interface ClientCertificateRequest {
  readonly organizations: readonly string[];
  readonly commonName?: string;
  readonly keyKind: KeyKind;
  readonly lifetimeHours: number;
  readonly now: number;
}

/** A certificate that is good for dialling only. `what` names the authority in errors. */
export async function signClientCertificate(
  authority: CertificateAndKey,
  request: ClientCertificateRequest,
  what: string,
): Promise<CertificateAndKey> {
  const ca = readAuthority(authority, what);
  const keys = await generateKeys(request.keyKind);
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: randomHex(16),
      subject: [
        ...request.organizations.map((name) => ({ O: [name] })),
        ...(request.commonName === undefined ? [] : [{ CN: [request.commonName] }]),
      ],
      issuer: ca.certificate.subjectName,
      ...validity(request.now, request.lifetimeHours * HOUR_MS),
      signingAlgorithm: ca.algorithm,
      publicKey: keys.publicKey,
      signingKey: ca.key,
      extensions: [
        new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.clientAuth]),
        ...authorityKeyIdentifier(ca.certificate),
      ],
    },
    webcrypto,
  );
  return { crt: certificatePem(certificate), key: writeKeyPem(keys.privateKey) };
}

/** Refuses a certificate and a key that do not belong together. */
export function checkPair(pair: CertificateAndKey, what: string): void {
  const key = readKeyPem(pair.key, `the key of ${what}`);
  let certificate: NodeCertificate;
  try {
    certificate = new NodeCertificate(pair.crt);
  } catch (cause) {
    throw new AppError("config.invalid", `the certificate of ${what} cannot be read`, { cause });
  }
  if (!certificate.checkPrivateKey(key)) {
    throw new AppError("config.invalid", `certificate and key of ${what} do not belong together`);
  }
}

function readAuthority(authority: CertificateAndKey, what: string) {
  checkPair(authority, what);
  const key = readKeyPem(authority.key, `the key of ${what}`);
  const keyKind = key.asymmetricKeyType === "ed25519" ? "ed25519" : "ecdsa";
  if (keyKind === "ecdsa" && key.asymmetricKeyDetails?.namedCurve !== "prime256v1") {
    throw new AppError(
      "feature.unsupported",
      `${what} cannot sign: its key is neither Ed25519 nor ECDSA on P-256`,
    );
  }
  const algorithm = algorithms[keyKind];
  return {
    certificate: new x509.X509Certificate(authority.crt),
    key: key.toCryptoKey(algorithm, true, ["sign"]),
    algorithm,
  };
}

function authorityKeyIdentifier(ca: x509.X509Certificate): x509.Extension[] {
  const id = ca.getExtension(x509.SubjectKeyIdentifierExtension)?.keyId;
  return id === undefined ? [] : [new x509.AuthorityKeyIdentifierExtension(id)];
}

async function generateKeys(kind: KeyKind): Promise<webcrypto.CryptoKeyPair> {
  // Both kinds are pairs, which the overloads of generateKey tell only for a literal name.
  return kind === "ecdsa"
    ? webcrypto.subtle.generateKey(ecdsa, true, ["sign", "verify"])
    : ((await webcrypto.subtle.generateKey(ed25519, true, ["sign", "verify"])) as webcrypto.CryptoKeyPair);
}

function certificatePem(certificate: x509.X509Certificate): string {
  return `${certificate.toString("pem").trimEnd()}\n`;
}

function validity(now: number, lifetimeMs: number): { notBefore: Date; notAfter: Date } {
  return { notBefore: new Date(now), notAfter: new Date(now + lifetimeMs) };
}

/** The first bit stays clear and the second set: a positive number without leading zeros. */
function randomHex(length: number): string {
  const bytes = webcrypto.getRandomValues(new Uint8Array(length));
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40;
  return Buffer.from(bytes).toString("hex");
}
