// The certificate of an API server in tests, signed by the cluster's authority as a real one is.
import "reflect-metadata";
import { KeyObject, webcrypto } from "node:crypto";
import * as x509 from "@peculiar/x509";
import type { CertificateAndKey } from "../secrets/bundle.ts";
import { readKeyPem } from "../secrets/key-pem.ts";

const algorithm = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" };
const DAY_MS = 86_400_000;

export async function serverCertificate(
  authority: CertificateAndKey,
  addresses: readonly string[],
): Promise<{ readonly cert: string; readonly key: string }> {
  const keys = (await webcrypto.subtle.generateKey(algorithm, true, [
    "sign",
    "verify",
  ])) as webcrypto.CryptoKeyPair;
  const ca = new x509.X509Certificate(authority.crt);
  const certificate = await x509.X509CertificateGenerator.create(
    {
      serialNumber: "41",
      subject: [{ CN: ["kube-apiserver"] }],
      issuer: ca.subjectName,
      notBefore: new Date(Date.now() - DAY_MS),
      notAfter: new Date(Date.now() + DAY_MS),
      signingAlgorithm: algorithm,
      publicKey: keys.publicKey,
      signingKey: readKeyPem(authority.key, "Kubernetes' authority").toCryptoKey(algorithm, true, ["sign"]),
      extensions: [
        new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
        new x509.SubjectAlternativeNameExtension(addresses.map((value) => ({ type: "ip" as const, value }))),
      ],
    },
    webcrypto,
  );
  const key = KeyObject.from(keys.privateKey).export({ type: "pkcs8", format: "pem" }) as string;
  return { cert: certificate.toString("pem"), key };
}
