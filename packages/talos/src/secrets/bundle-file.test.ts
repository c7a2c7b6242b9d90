import { parse, stringify } from "yaml";
import { beforeAll, expect, test } from "vitest";
import { testBundle } from "../testing/test-bundle.ts";
import type { SecretsBundle } from "./bundle.ts";
import { beginRotation, nextPhase } from "./rotation.ts";
import { parseBundle, writeBundle } from "./bundle-file.ts";

interface Raw {
  cluster: Record<string, unknown>;
  secrets: Record<string, unknown>;
  trustdinfo: Record<string, unknown>;
  certs: Record<string, Record<string, unknown>>;
}

let bundle: SecretsBundle;

beforeAll(async () => {
  bundle = await testBundle();
});

/** The file after a change, as text. */
function changed(change: (raw: Raw) => void): string {
  const raw = parse(writeBundle(bundle)) as Raw;
  change(raw);
  return stringify(raw);
}

test("a bundle of an older cluster keeps its AES-CBC secret", () => {
  const old: SecretsBundle = { ...bundle, encryption: { ...bundle.encryption, kind: "aescbc" } };
  expect(writeBundle(old)).toContain("aescbcencryptionsecret:");
  expect(parseBundle(writeBundle(old))).toEqual(old);
});

test("a rotation is kept with it, whatever it is about", async () => {
  const both = await beginRotation(bundle, { talos: true, kubernetes: true }, 0);
  for (const each of [both, nextPhase(both), nextPhase(nextPhase(both))])
    expect(parseBundle(writeBundle(each))).toEqual(each);
  const one = await beginRotation(bundle, { talos: true, kubernetes: false }, 0);
  expect(parseBundle(writeBundle(one))).toEqual(one);
  expect(nextPhase(one).certs.k8s).toEqual(bundle.certs.k8s);
  expect(parseBundle(writeBundle(nextPhase(nextPhase(nextPhase(one)))))).not.toHaveProperty("rotation");
  expect(nextPhase(bundle)).toBe(bundle);
  const unknown = writeBundle(one).replace("phase: accept", "phase: pray");
  expect(() => parseBundle(unknown)).toThrow("rotation.phase");
});

test.each<[string, (raw: Raw) => void, string]>([
  ["no id", (raw) => delete raw.cluster["id"], "has no cluster.id"],
  ["an empty token", (raw) => (raw.trustdinfo["token"] = ""), "has no trustdinfo.token"],
  [
    "a short token",
    (raw) => (raw.secrets["bootstraptoken"] = "abc.def"),
    "secrets.bootstraptoken of the secrets bundle is no token",
  ],
  ["two ways to encrypt", (raw) => (raw.secrets["aescbcencryptionsecret"] = "AAAA"), "exactly one of"],
  ["no way to encrypt", (raw) => delete raw.secrets["secretboxencryptionsecret"], "exactly one of"],
  [
    "a secret that is no base64",
    (raw) => (raw.cluster["secret"] = "#!"),
    "cluster.secret of the secrets bundle is no base64",
  ],
  ["no authority", (raw) => delete raw.certs["os"], "has no certs.os.crt"],
  [
    "a certificate that is no PEM",
    (raw) => (raw.certs["k8s"] = { crt: "AAAA", key: "AAAA" }),
    "certs.k8s.crt of the secrets bundle is no PEM",
  ],
  [
    "keys swapped",
    (raw) => (raw.certs["etcd"] = { ...raw.certs["etcd"], key: raw.certs["k8s"]?.["key"] }),
    "certificate and key of certs.etcd do not belong together",
  ],
  [
    "a key in place of a certificate",
    (raw) => (raw.certs["etcd"] = { ...raw.certs["etcd"], crt: raw.certs["etcd"]?.["key"] }),
    "the certificate of certs.etcd cannot be read",
  ],
  [
    "a certificate in place of a key",
    (raw) => (raw.certs["k8sserviceaccount"] = { key: raw.certs["etcd"]?.["crt"] }),
    "certs.k8sserviceaccount.key is no private key",
  ],
])("%s is refused by name", (_what, change, message) => {
  expect(() => parseBundle(changed(change))).toThrow(message);
});

test("text that is no YAML is refused without quoting it", () => {
  expect(() => parseBundle("cluster: [secret-part\n: }")).toThrow(/^the secrets bundle is no YAML$/);
  expect(() => parseBundle("")).toThrow("has no cluster.id");
});
