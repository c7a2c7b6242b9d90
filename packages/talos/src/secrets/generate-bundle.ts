// A new secrets bundle, as `talosctl gen secrets` makes it.
import { randomBytes, randomInt, webcrypto } from "node:crypto";
import type { ConfigContract } from "../contract/contracts.ts";
import { createAuthority } from "./authority.ts";
import type { SecretsBundle } from "./bundle.ts";
import { writeKeyPem } from "./key-pem.ts";

const TOKEN_LETTERS = "0123456789abcdefghijklmnopqrstuvwxyz";

export async function generateBundle(
  contract: Pick<ConfigContract, "clusterIdEncoding">,
  now: number,
): Promise<SecretsBundle> {
  const [etcd, k8s, k8sAggregator, os, serviceAccount] = await Promise.all([
    createAuthority({ organization: "etcd", keyKind: "ecdsa", now }),
    createAuthority({ organization: "kubernetes", keyKind: "ecdsa", now }),
    createAuthority({ organization: undefined, keyKind: "ecdsa", now }),
    createAuthority({ organization: "talos", keyKind: "ed25519", now }),
    serviceAccountKey(),
  ]);
  return {
    cluster: { id: padded(randomBytes(32), contract.clusterIdEncoding), secret: randomSecret() },
    bootstrapToken: randomToken(),
    encryption: { kind: "secretbox", secret: randomSecret() },
    trustdToken: randomToken(),
    certs: { etcd, k8s, k8sAggregator, k8sServiceAccount: { key: serviceAccount }, os },
  };
}

async function serviceAccountKey(): Promise<string> {
  const { privateKey } = await webcrypto.subtle.generateKey(
    {
      name: "RSASSA-PKCS1-v1_5",
      modulusLength: 4096,
      publicExponent: new Uint8Array([1, 0, 1]),
      hash: "SHA-256",
    },
    true,
    ["sign", "verify"],
  );
  return writeKeyPem(privateKey);
}

/** Go's URL encoding keeps the padding, Node's leaves it off. */
function padded(bytes: Buffer, encoding: "base64url" | "base64"): string {
  const text = bytes.toString("base64");
  return encoding === "base64" ? text : text.replaceAll("+", "-").replaceAll("/", "_");
}

function randomSecret(): string {
  return randomBytes(32).toString("base64");
}

function randomToken(): string {
  return `${randomLetters(6)}.${randomLetters(16)}`;
}

function randomLetters(count: number): string {
  return Array.from({ length: count }, () => TOKEN_LETTERS[randomInt(TOKEN_LETTERS.length)]).join("");
}
