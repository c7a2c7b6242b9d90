import { X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { controlPlaneCertificates } from "@gpve/domain/vcluster/certificates.ts";
import { etcdCertificates } from "@gpve/domain/vcluster/etcd.ts";
import { isSignedBy } from "@gpve/kit/pki/x509.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { ensureVnodeKeys } from "../vnode/vnode-keys.ts";
import { loadKeys, saveKeys } from "./backup/saved-keys.ts";
import { ClusterKeys } from "./cluster-keys.ts";
import { FileClusterAuthorities } from "./file-cluster-authorities.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-rotation-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const certificates = (...alsoKnownAs: readonly string[]) => [
  ...controlPlaneCertificates({
    serviceCidr: "10.96.0.0/16",
    dnsDomain: "cluster.local",
    address: "100.80.0.2",
    alsoKnownAs,
  }),
  ...etcdCertificates("100.80.0.2"),
];
const UNTIL = 5_000_000;

async function world() {
  const clock = new FakeClock(1_000_000);
  const pki = join(folder, "pki");
  const keys = new ClusterKeys(pki, clock);
  await keys.ensure(certificates());
  const authorities = new FileClusterAuthorities(() => new ClusterKeys(pki, clock));
  const read = (name: string): string => readFileSync(join(pki, name), "utf8");
  return { clock, pki, keys, authorities, read };
}

describe("a new authority", () => {
  test("signs for everybody but the API server itself, and both are trusted, until the old one is dropped", async () => {
    const { keys, authorities, read } = await world();
    const [old, mark, serving] = [read("ca.crt"), keys.storeMark, read("apiserver.crt")];
    const others = [read("front-proxy-ca.crt"), read("etcd-ca.crt"), read("sa.key")];
    expect([authorities.rotation("demo"), keys.trustFile]).toEqual([undefined, keys.file("ca.crt")]);
    await authorities.begin("demo", UNTIL);
    await keys.ensure(certificates());
    const fresh = read("ca.crt");
    expect(fresh).not.toBe(old);
    expect(authorities.rotation("demo")).toEqual({ until: UNTIL });
    expect(authorities.trust("demo")).toContain(fresh.trim());
    expect(authorities.trust("demo")).toContain(old.trim());
    expect([keys.trustFile, read("ca-trust.crt")]).toEqual([keys.file("ca-trust.crt"), keys.caPem]);
    // Who knows only the old one still knows the API server, which stays as it was.
    expect(read("apiserver.crt")).toBe(serving);
    for (const name of ["apiserver-kubelet-client", "scheduler", "controller-manager"])
      expect(isSignedBy(read(`${name}.crt`), fresh)).toBe(true);
    expect(isSignedBy(read("front-proxy-client.crt"), read("front-proxy-ca.crt"))).toBe(true);
    // Members of an etcd are started one after the other: who is first trusts both, and shows what the others know.
    expect([keys.etcdTrust, isSignedBy(read("etcd.crt"), others[1] ?? "")]).toEqual([
      "etcd-ca-trust.crt",
      true,
    ]);
    for (const pem of [others[1] ?? "", read("etcd-ca.crt")])
      expect(read("etcd-ca-trust.crt")).toContain(pem.trim());
    expect(
      [read("front-proxy-ca.crt"), read("etcd-ca.crt"), read("sa.key")].map((pem) => others.includes(pem)),
    ).toEqual([false, false, true]);
    const { certPem } = await keys.issue({ commonName: "joe", usage: "client" }, 1_000);
    expect(isSignedBy(certPem, fresh)).toBe(true);
    // A name more while both are good: signed by the old one still.
    await keys.ensure(certificates("192.0.2.7"));
    expect(isSignedBy(read("apiserver.crt"), old)).toBe(true);
    // Where its objects are is not another place for that.
    expect(keys.storeMark).toBe(mark);
    authorities.settle("demo");
    expect(authorities.rotation("demo")).toEqual({ until: UNTIL, isWhole: true });
    expect(keys.isDue([])).toBe(false);
    authorities.turn("demo");
    await keys.ensure(certificates());
    expect([keys.etcdTrust, isSignedBy(read("etcd.crt"), read("etcd-ca.crt"))]).toEqual([
      "etcd-ca-trust.crt",
      true,
    ]);
    expect(isSignedBy(read("apiserver.crt"), old)).toBe(true);
    authorities.drop("demo");
    await keys.ensure(certificates());
    expect([keys.etcdTrust, isSignedBy(read("etcd.crt"), read("etcd-ca.crt"))]).toEqual([
      "etcd-ca.crt",
      true,
    ]);
    expect([keys.caPem, keys.trustFile]).toEqual([fresh, keys.file("ca.crt")]);
    expect(isSignedBy(read("apiserver.crt"), fresh)).toBe(true);
    expect(new X509Certificate(read("apiserver.crt")).checkIP("192.0.2.7")).toBe("192.0.2.7");
    expect(keys.storeMark).toBe(mark);
    authorities.settle("demo");
    expect(authorities.rotation("demo")).toBeUndefined();
  });

  test("is not there after a crash before the note of it, and is made whole after one behind it", async () => {
    const { pki, keys, authorities, read } = await world();
    const old = read("ca.crt");
    // Made, and nobody's.
    writeFileSync(join(pki, "next-ca.crt"), "CRT");
    writeFileSync(join(pki, "next-ca.key"), "KEY");
    writeFileSync(join(pki, "former-ca.crt"), "old");
    await keys.ensure(certificates());
    expect(read("ca.crt")).toBe(old);
    expect(readdirSync(pki).filter((name) => /^(?:next|former)-/.test(name))).toEqual([]);
    await authorities.begin("demo", UNTIL);
    const [crt, key] = [read("ca.crt"), read("ca.key")];
    // As if the machine had stopped between certificate and key.
    writeFileSync(join(pki, "next-ca.crt"), crt);
    writeFileSync(join(pki, "next-ca.key"), key);
    writeFileSync(join(pki, "ca.key"), read("former-ca.key"));
    const { certPem } = await keys.issue({ commonName: "joe", usage: "client" }, 1_000);
    expect(isSignedBy(certPem, crt)).toBe(true);
    expect([read("ca.key"), readdirSync(pki).some((name) => name.startsWith("next-"))]).toEqual([key, false]);
    // Dropped, and stopped before all of it was gone.
    const former = read("former-ca.crt");
    authorities.drop("demo");
    writeFileSync(join(pki, "former-ca.crt"), former);
    await keys.ensure(certificates());
    expect(keys.caPem).toBe(crt);
    expect(readdirSync(pki)).not.toContain("former-ca.crt");
  });

  test("is a worker's too", async () => {
    const { clock, keys, authorities, read } = await world();
    const wanted = {
      folder: join(folder, "worker"),
      name: "worker-1",
      address: "100.80.0.10",
      server: "https://x",
    };
    mkdirSync(wanted.folder);
    const own = (name: string): string => readFileSync(join(wanted.folder, name), "utf8");
    expect(await ensureVnodeKeys(keys, wanted, clock)).toBe(true);
    expect(await ensureVnodeKeys(keys, wanted, clock)).toBe(false);
    await authorities.begin("demo", UNTIL);
    expect(await ensureVnodeKeys(keys, wanted, clock)).toBe(true);
    expect(own("ca.crt")).toBe(keys.caPem);
    for (const name of ["kubelet", "kubelet-serving", "kube-proxy"])
      expect(isSignedBy(own(`${name}.crt`), read("ca.crt"))).toBe(true);
  });

  test("is another node's, with the old one while that is trusted", async () => {
    const { clock, pki, keys, authorities } = await world();
    const [replica, branch] = ["replica", "branch"].map((name) => new ClusterKeys(join(folder, name), clock));
    const carry = async (): Promise<void> => {
      replica?.takeAuthority(await keys.authority("replica"));
      branch?.takeAuthority(await keys.authority("workers"));
      await replica?.ensure(certificates());
    };
    const shown = () => [keys, replica, branch].map((each) => [each?.caPem, each?.rotation]);
    const same = (): void => expect(new Set(shown().map((each) => JSON.stringify(each))).size).toBe(1);
    await carry();
    same();
    await authorities.begin("demo", UNTIL);
    await keys.ensure(certificates());
    await carry();
    same();
    expect(branch?.rotation).toEqual({ until: UNTIL });
    expect([replica?.etcdTrust, replica?.storeMark]).toEqual(["etcd-ca-trust.crt", keys.storeMark]);
    expect(replica?.read("etcd-ca-trust.crt")).toBe(keys.read("etcd-ca-trust.crt"));
    expect(isSignedBy(replica?.read("apiserver.crt") ?? "", keys.read("former-ca.crt"))).toBe(true);
    // Workers need no key of the old one.
    expect(readdirSync(join(folder, "branch")).toSorted()).toEqual([
      "ca.crt",
      "ca.key",
      "former-ca.crt",
      "rotation.json",
    ]);
    // One whose control plane goes elsewhere keeps what its workers trust.
    keys.keepAuthority();
    expect(keys.caPem).toBe(branch?.caPem);
    expect(readdirSync(pki)).not.toContain("former-ca.key");
    keys.takeAuthority((await replica?.authority("replica")) ?? {});
    authorities.settle("demo");
    authorities.drop("demo");
    await carry();
    same();
    expect(readdirSync(join(folder, "branch")).toSorted()).toEqual(["ca.crt", "ca.key"]);
    expect(replica?.etcdTrust).toBe("etcd-ca.crt");
  });

  test("goes with the kubeconfigs that were taken back to whoever has a control plane of the cluster", async () => {
    const { clock, pki, keys } = await world();
    const [first, second] = ["0123456789abcdef", "1123456789abcdef"] as const;
    keys.revoke(first);
    const replica = new ClusterKeys(join(folder, "replica"), clock);
    replica.revoke(second);
    replica.takeAuthority(await keys.authority("replica"));
    expect(Object.keys(replica.revoked).toSorted()).toEqual([first, second]);
    expect(await keys.authority("workers")).not.toHaveProperty("revoked.json");
    // What is restored over the cluster does not give them back.
    saveKeys(pki, join(folder, "keys.json"));
    loadKeys(join(folder, "keys.json"), join(folder, "replica"), "whole");
    expect(Object.keys(replica.revoked).toSorted()).toEqual([first, second]);
  });

  test("is in what is saved, with the old one while that is trusted", async () => {
    const { clock, pki, keys, authorities } = await world();
    await authorities.begin("demo", UNTIL);
    const trust = keys.caPem;
    saveKeys(pki, join(folder, "keys.json"));
    authorities.drop("demo");
    saveKeys(pki, join(folder, "later.json"));
    const other = join(folder, "other");
    loadKeys(join(folder, "keys.json"), other, "whole");
    expect(new ClusterKeys(other, clock).caPem).toBe(trust);
    loadKeys(join(folder, "later.json"), other, "whole");
    expect(new ClusterKeys(other, clock).rotation).toBeUndefined();
  });
});

test("a certificate keeps the names of the nodes that its cluster was on", async () => {
  const { keys, read } = await world();
  await keys.ensure(certificates("n1", "192.0.2.1"));
  await keys.ensure(certificates("n2", "192.0.2.2"));
  const certificate = new X509Certificate(read("apiserver.crt"));
  expect(["192.0.2.1", "192.0.2.2"].map((address) => certificate.checkIP(address))).toEqual([
    "192.0.2.1",
    "192.0.2.2",
  ]);
  expect(["n1", "n2"].map((name) => certificate.checkHost(name))).toEqual(["n1", "n2"]);
});
