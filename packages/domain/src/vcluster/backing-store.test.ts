import type { Fields } from "@gpve/contracts/json-object.ts";
import { describe, expect, test } from "vitest";
import { endpointAddress, readExternalKeys } from "./backing-store.ts";
import { controlPlaneCommand } from "./control-plane.ts";
import { etcdCertificates, etcdCommand, partsOf, readClusterPart } from "./etcd.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "./vcluster-spec.ts";

const certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----";
const key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----";
const external = (endpoint?: string) => ({
  controlPlane: { backingStore: "external", externalEtcdEndpoint: endpoint },
});

describe("the store of a cluster", () => {
  test("follows from its tier, and is what is asked for", () => {
    expect(readVirtualClusterSpec({ controlPlane: { tier: "Performance" } })).toMatchObject({
      backingStore: "etcd",
      replicas: 1,
    });
    const other = readVirtualClusterSpec({ controlPlane: { tier: "performance", backingStore: "sqlite" } });
    expect(other.backingStore).toBe("sqlite");
    expect([partsOf({ spec: { backingStore: "etcd" } })[0], partsOf({ spec: other })[0]]).toEqual([
      "etcd",
      "kube-apiserver",
    ]);
    expect([readClusterPart("etcd"), readClusterPart("kubelet")]).toEqual(["etcd", undefined]);
  });

  test("is somebody else's, at the places that are said", () => {
    const spec = readVirtualClusterSpec(external("https://192.0.2.1:2379, https://192.0.2.2:2379"));
    expect(spec.externalEndpoints).toEqual(["https://192.0.2.1:2379", "https://192.0.2.2:2379"]);
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
    expect(endpointAddress("https://192.0.2.2:2379")).toEqual({ address: "192.0.2.2", port: 2379 });
  });

  test.each<readonly [Fields, string]>([
    [external(), "must say where the etcd is"],
    [external("http://192.0.2.1:2379"), "is no https://ADDRESS:PORT"],
    [external("https://etcd.example.org:2379"), "is no https://ADDRESS:PORT"],
    [external("https://192.0.2.1:0"), "is no https://ADDRESS:PORT"],
    ...["127.0.0.1", "0.0.0.0", "100.80.7.10", "169.254.169.254", "224.0.0.1"].map(
      (address) => [external(`https://${address}:2379`), "is not an address that machines reach"] as const,
    ),
    [
      { ...external("https://192.0.2.1:2379"), workerNodes: { count: 1 } },
      "nobody judges what is written into that store",
    ],
    [
      { controlPlane: { externalEtcdEndpoint: "https://192.0.2.1:2379" } },
      "belongs to backingStore external",
    ],
  ])("refuses %j with the reason", (spec, why) => {
    expect(() => readVirtualClusterSpec(spec)).toThrow(why);
  });

  test("has keys where it is somebody else's", () => {
    const keys = { ca: certificate, cert: certificate, key };
    expect(readExternalKeys({ controlPlane: { externalEtcdCertificates: keys } })).toEqual({
      ca: `${certificate}\n`,
      cert: `${certificate}\n`,
      key: `${key}\n`,
    });
    const swapped = { ...keys, key: certificate };
    expect(() => readExternalKeys({ controlPlane: { externalEtcdCertificates: swapped } })).toThrow(
      "externalEtcdCertificates.key: must be there, as PEM",
    );
    expect(() => readExternalKeys({})).toThrow("externalEtcdCertificates.ca");
  });
});

describe("an etcd of a cluster's own", () => {
  const pki = (file: string) => `/vc/pki/${file}`;

  test("names every file that it reads, and lets nobody in without a certificate", () => {
    const { args, files } = etcdCommand({ address: "100.80.0.2", pki, dataFolder: "/vc/etcd" });
    const named = args.flatMap((arg) => /=(\/vc\/pki\/\S+)$/.exec(arg)?.[1] ?? []);
    expect([...new Set(named)].toSorted()).toEqual(files.toSorted());
    expect(args).toContain("--client-cert-auth=true");
    expect(args.filter((arg) => arg.includes("http:"))).toEqual([]);
    expect(etcdCertificates("100.80.0.2").every(({ by }) => by === "etcd-ca")).toBe(true);
  });

  test("is where its API server looks, below a prefix where others are there too", () => {
    const { args, files } = controlPlaneCommand("kube-apiserver", readVirtualClusterSpec({}), {
      address: "100.80.0.2",
      pki,
      kubeconfig: pki,
      store: {
        servers: ["https://192.0.2.1:2379", "https://192.0.2.2:2379"],
        keys: { ca: "e-ca.crt", cert: "e.crt", key: "e.key" },
        prefix: "/gpve/t/demo/abc",
      },
    });
    expect(args).toEqual(
      expect.arrayContaining([
        "--etcd-servers=https://192.0.2.1:2379,https://192.0.2.2:2379",
        "--etcd-cafile=/vc/pki/e-ca.crt",
        "--etcd-certfile=/vc/pki/e.crt",
        "--etcd-keyfile=/vc/pki/e.key",
        "--etcd-prefix=/gpve/t/demo/abc",
      ]),
    );
    expect(files).toContain("/vc/pki/e.key");
  });
});
