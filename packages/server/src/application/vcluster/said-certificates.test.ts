import { expect, test } from "vitest";
import { createAuthority, privateKeyPem } from "@gpve/kit/pki/x509.ts";
import { requireReadable } from "./said-certificates.ts";

const issuer = { issuerUrl: "https://login.example.com", clientId: "kube", usernameClaim: "sub" };
const broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

test("certificates and keys that a request brings are those that programs can read", async () => {
  const made = async (name: string) => {
    const { certPem, key } = await createAuthority(name, Date.now());
    return { certPem, keyPem: await privateKeyPem(key) };
  };
  const [one, other] = [await made("one"), await made("other")];
  const keys = { ca: one.certPem, cert: one.certPem, key: one.keyPem };
  const of = (more: object) => () => requireReadable({ externalKeys: { ...keys, ...more } });
  const oidc = (ca: string) => () => requireReadable({ oidc: { ...issuer, ca }, externalKeys: undefined });
  expect(of({})).not.toThrow();
  expect(oidc(one.certPem + other.certPem)).not.toThrow();
  const cases: [() => void, string][] = [
    [oidc(broken), "spec.controlPlane.oidc.ca: has no certificate in PEM form"],
    [oidc(one.certPem + broken), "spec.controlPlane.oidc.ca"],
    [oidc("-----BEGIN CERTIFICATE-----"), "spec.controlPlane.oidc.ca"],
    [of({ ca: broken }), "spec.controlPlane.externalEtcdCertificates.ca"],
    [of({ cert: broken }), "spec.controlPlane.externalEtcdCertificates.cert"],
    [of({ key: broken }), "spec.controlPlane.externalEtcdCertificates.key: has no private key"],
    [of({ key: other.keyPem }), "is not the key of the certificate"],
  ];
  for (const [ask, why] of cases) expect(ask).toThrow(why);
  expect(() => requireReadable({ externalKeys: undefined })).not.toThrow();
});
