// secrets.yaml: the file `talosctl gen secrets` writes and `--with-secrets` reads. Certificates and keys are base64 of
// PEM in it. Errors name the key that is wrong, never its value.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { parse, stringify } from "yaml";
import { checkPair } from "./authority.ts";
import { toBase64 } from "./base64-text.ts";
import type { AuthorityRotation, CertificateAndKey, SecretsBundle } from "./bundle.ts";
import { readKeyPem } from "./key-pem.ts";
import { isRotationPhase } from "./rotation.ts";

const TOKEN = /^[a-z0-9]{6}\.[a-z0-9]{16}$/;

export function writeBundle(bundle: SecretsBundle): string {
  const { certs, encryption } = bundle;
  return stringify(
    {
      cluster: { id: bundle.cluster.id, secret: bundle.cluster.secret },
      secrets: {
        bootstraptoken: bundle.bootstrapToken,
        [`${encryption.kind}encryptionsecret`]: encryption.secret,
      },
      trustdinfo: { token: bundle.trustdToken },
      certs: {
        etcd: encodePair(certs.etcd),
        k8s: encodePair(certs.k8s),
        k8saggregator: encodePair(certs.k8sAggregator),
        k8sserviceaccount: { key: toBase64(certs.k8sServiceAccount.key) },
        os: encodePair(certs.os),
      },
      // Only while authorities are being replaced; talosctl does not know it and passes it over.
      ...given({ rotation: bundle.rotation === undefined ? undefined : writeRotation(bundle.rotation) }),
    },
    { indent: 4, lineWidth: 0 },
  );
}

export function parseBundle(text: string): SecretsBundle {
  const root = readYaml(text);
  const bundle: SecretsBundle = {
    cluster: {
      id: binary(root, "cluster.id"),
      secret: binary(root, "cluster.secret"),
    },
    bootstrapToken: token(root, "secrets.bootstraptoken"),
    encryption: readEncryption(root),
    trustdToken: token(root, "trustdinfo.token"),
    certs: {
      etcd: readPair(root, "certs.etcd"),
      k8s: readPair(root, "certs.k8s"),
      k8sAggregator: readPair(root, "certs.k8saggregator"),
      k8sServiceAccount: { key: pem(root, "certs.k8sserviceaccount.key") },
      os: readPair(root, "certs.os"),
    },
    ...given({ rotation: readRotation(root) }),
  };
  readKeyPem(bundle.certs.k8sServiceAccount.key, "certs.k8sserviceaccount.key");
  return bundle;
}

function readYaml(text: string): unknown {
  try {
    return parse(text);
  } catch {
    // The parser quotes the line it stopped at, and that line may be a key.
    throw unusable("the secrets bundle is no YAML");
  }
}

function readEncryption(root: unknown): SecretsBundle["encryption"] {
  const kinds = ["secretbox", "aescbc"] as const;
  const present = kinds.filter((kind) => lookUp(root, `secrets.${kind}encryptionsecret`) !== undefined);
  const [kind] = present;
  if (kind === undefined || present.length > 1) {
    throw unusable(
      "the secrets bundle needs exactly one of secrets.secretboxencryptionsecret and secrets.aescbcencryptionsecret",
    );
  }
  return { kind, secret: binary(root, `secrets.${kind}encryptionsecret`) };
}

function writeRotation({ phase, os, k8s }: AuthorityRotation) {
  const pair = (each: CertificateAndKey | undefined) => (each === undefined ? undefined : encodePair(each));
  return { phase, ...given({ os: pair(os), k8s: pair(k8s) }) };
}

function readRotation(root: unknown): AuthorityRotation | undefined {
  if (lookUp(root, "rotation") === undefined) return undefined;
  const phase = required(root, "rotation.phase");
  if (!isRotationPhase(phase)) {
    throw unusable("rotation.phase of the secrets bundle is none that there is");
  }
  const pair = (path: string) => (lookUp(root, path) === undefined ? undefined : readPair(root, path));
  return { phase, ...given({ os: pair("rotation.os"), k8s: pair("rotation.k8s") }) };
}

function readPair(root: unknown, path: string): CertificateAndKey {
  const pair = { crt: pem(root, `${path}.crt`), key: pem(root, `${path}.key`) };
  checkPair(pair, path);
  return pair;
}

function token(root: unknown, path: string): string {
  const value = required(root, path);
  if (!TOKEN.test(value)) {
    throw unusable(`${path} of the secrets bundle is no token (6 and 16 letters or digits)`);
  }
  return value;
}

function binary(root: unknown, path: string): string {
  const value = required(root, path);
  if (!/^[A-Za-z0-9+/_-]+={0,2}$/.test(value)) {
    throw unusable(`${path} of the secrets bundle is no base64`);
  }
  return value;
}

function pem(root: unknown, path: string): string {
  const text = Buffer.from(binary(root, path), "base64").toString("utf8");
  if (!text.startsWith("-----BEGIN ")) {
    throw unusable(`${path} of the secrets bundle is no PEM in base64`);
  }
  return text;
}

function required(root: unknown, path: string): string {
  const value = lookUp(root, path);
  if (typeof value !== "string" || value === "") {
    throw unusable(`the secrets bundle has no ${path}`);
  }
  return value;
}

function lookUp(root: unknown, path: string): unknown {
  let value = root;
  for (const name of path.split(".")) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, name)) return undefined;
    value = (value as Record<string, unknown>)[name];
  }
  return value === "" || value === null ? undefined : value;
}

function encodePair(pair: CertificateAndKey): { crt: string; key: string } {
  return { crt: toBase64(pair.crt), key: toBase64(pair.key) };
}

function unusable(message: string): AppError {
  return new AppError("config.invalid", message, {
    data: { finding: "bundle-unusable", next: "Nothing was changed." },
  });
}
