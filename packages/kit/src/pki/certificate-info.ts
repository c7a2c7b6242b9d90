// A certificate as PVE shows it.
import { X509Certificate } from "node:crypto";
import { given } from "@gpve/contracts/given.ts";

export interface CertificateInfo {
  readonly [key: string]: unknown;
  readonly filename: string;
  readonly fingerprint: string;
  readonly subject: string;
  readonly issuer: string;
  /** Seconds since the epoch. */
  readonly notbefore: number;
  readonly notafter: number;
  readonly san: readonly string[];
  readonly pem: string;
  readonly "public-key-type"?: string;
  readonly "public-key-bits"?: number;
}

/** The names OpenSSL has for kinds of keys. */
const KEY_TYPES: Readonly<Record<string, string>> = { rsa: "rsaEncryption", ec: "id-ecPublicKey" };
const CURVE_BITS: Readonly<Record<string, number>> = { prime256v1: 256, secp384r1: 384, secp521r1: 521 };

/** Of a chain, the first. */
export function certificateInfo(filename: string, pem: string): CertificateInfo {
  const certificate = new X509Certificate(pem);
  const { asymmetricKeyType = "", asymmetricKeyDetails: details } = certificate.publicKey;
  const bits = details?.modulusLength ?? CURVE_BITS[details?.namedCurve ?? ""];
  return {
    filename,
    fingerprint: certificate.fingerprint256,
    subject: oneLine(certificate.subject),
    issuer: oneLine(certificate.issuer),
    notbefore: Math.floor(Date.parse(certificate.validFrom) / 1_000),
    notafter: Math.floor(Date.parse(certificate.validTo) / 1_000),
    san: (certificate.subjectAltName ?? "")
      .split(", ")
      .flatMap((name) => /^(?:DNS|IP Address):(.*)$/.exec(name)?.[1] ?? []),
    pem: `${/-----BEGIN[^]*?-----END CERTIFICATE-----/.exec(pem)?.[0] ?? ""}\n`,
    "public-key-type": KEY_TYPES[asymmetricKeyType] ?? asymmetricKeyType,
    ...given({ "public-key-bits": bits }),
  };
}

/** "/O=Example/CN=host" */
function oneLine(name: string | undefined): string {
  return (name ?? "")
    .split("\n")
    .map((part) => `/${part}`)
    .join("");
}
