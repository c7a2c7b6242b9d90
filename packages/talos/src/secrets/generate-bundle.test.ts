import "reflect-metadata";
import { X509Certificate as NodeCertificate } from "node:crypto";
import * as x509 from "@peculiar/x509";
import { beforeAll, expect, test } from "vitest";
import { contracts } from "../contract/contracts.ts";
import type { SecretsBundle } from "./bundle.ts";
import { parseBundle, writeBundle } from "./bundle-file.ts";
import { generateBundle } from "./generate-bundle.ts";
import { readKeyPem } from "./key-pem.ts";

const now = Date.UTC(2026, 10, 16, 12);
let bundle: SecretsBundle;

beforeAll(async () => {
  bundle = await generateBundle(contracts["v1.14"], now);
});

test("authorities have Talos' subjects, keys, lifetime and extensions", () => {
  const expected = [
    ["etcd", "O=etcd", "ec"],
    ["k8s", "O=kubernetes", "ec"],
    ["k8sAggregator", "", "ec"],
    ["os", "O=talos", "ed25519"],
  ] as const;
  for (const [name, subject, keyType] of expected) {
    const { crt } = bundle.certs[name];
    const certificate = new x509.X509Certificate(crt);
    expect([name, certificate.subject, certificate.issuer]).toEqual([name, subject, subject]);
    expect(certificate.notBefore.getTime()).toBe(now);
    expect(certificate.notAfter.getTime()).toBe(now + 87_600 * 3_600_000);
    expect(certificate.serialNumber).toMatch(/^[0-9a-f]{32}$/);
    expect(certificate.extensions.map(({ type, critical }) => [type, critical])).toEqual([
      ["2.5.29.15", true],
      ["2.5.29.37", false],
      ["2.5.29.19", true],
      ["2.5.29.14", false],
    ]);
    expect(certificate.getExtension(x509.KeyUsagesExtension)?.usages).toBe(
      x509.KeyUsageFlags.digitalSignature | x509.KeyUsageFlags.keyCertSign,
    );
    expect(certificate.getExtension(x509.ExtendedKeyUsageExtension)?.usages).toEqual([
      x509.ExtendedKeyUsage.serverAuth,
      x509.ExtendedKeyUsage.clientAuth,
    ]);
    expect(certificate.getExtension(x509.BasicConstraintsExtension)?.ca).toBe(true);
    const node = new NodeCertificate(crt);
    expect(node.publicKey.asymmetricKeyType).toBe(keyType);
    expect(node.verify(node.publicKey)).toBe(true);
  }
});

test("keys carry the labels Go's libraries write", () => {
  expect(bundle.certs.etcd.key).toMatch(
    /^-----BEGIN EC PRIVATE KEY-----\n[^]*\n-----END EC PRIVATE KEY-----\n$/,
  );
  expect(bundle.certs.os.key).toMatch(
    /^-----BEGIN ED25519 PRIVATE KEY-----\n[^]*-----END ED25519 PRIVATE KEY-----\n$/,
  );
  expect(bundle.certs.k8sServiceAccount.key).toMatch(/^-----BEGIN RSA PRIVATE KEY-----\n/);
  const key = readKeyPem(bundle.certs.k8sServiceAccount.key, "key");
  expect(key.asymmetricKeyDetails?.modulusLength).toBe(4096);
});

test("tokens and random values have Talos' forms", async () => {
  expect(bundle.bootstrapToken).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}$/);
  expect(bundle.trustdToken).toMatch(/^[a-z0-9]{6}\.[a-z0-9]{16}$/);
  for (const value of [bundle.cluster.id, bundle.cluster.secret, bundle.encryption.secret]) {
    expect(value).toMatch(/^[A-Za-z0-9+/]{43}=$/);
    expect(Buffer.from(value, "base64")).toHaveLength(32);
  }
});

test("a bundle survives its file", () => {
  const text = writeBundle(bundle);
  expect(parseBundle(text)).toEqual(bundle);
  expect(text.match(/^\s*[a-z0-9]+:/gm)?.map((key) => key.trim())).toEqual(
    "cluster: id: secret: secrets: bootstraptoken: secretboxencryptionsecret: trustdinfo: token: certs: etcd: crt: key: k8s: crt: key: k8saggregator: crt: key: k8sserviceaccount: key: os: crt: key:".split(
      " ",
    ),
  );
});
