import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { issuerConfig, issuerFiles, nodeLookup, requireIssuer, writeIssuer } from "./cluster-issuer.ts";

const clusterOf = (issuerUrl: string, more: object = {}) => ({
  spec: readVirtualClusterSpec({ controlPlane: { oidc: { issuerUrl, clientId: "kube", ...more } } }),
  version: "1.36.4",
});
const named = clusterOf("https://login.example.com");
const at =
  (...addresses: readonly string[]) =>
  () =>
    Promise.resolve(addresses);
const lost = (): Promise<never> => Promise.reject(new Error("ENOTFOUND"));

describe("the issuer of a virtual cluster on its node", () => {
  let place: string;
  beforeEach(() => {
    place = mkdtempSync(join(tmpdir(), "gpve-issuer-"));
  });
  afterEach(() => rmSync(place, { recursive: true, force: true }));
  const hosts = (): string => readFileSync(join(place, "issuer/hosts"), "utf8");

  test("is reached by its name, where the node found it", async () => {
    expect(await writeIssuer(place, named, at("192.0.2.7", "192.0.2.8"))).toEqual([
      { address: "192.0.2.7", port: 443 },
      { address: "192.0.2.8", port: 443 },
    ]);
    expect(hosts()).toBe("127.0.0.1 localhost\n192.0.2.7 login.example.com\n192.0.2.8 login.example.com\n");
    expect(readFileSync(issuerConfig(place, named.spec) ?? "", "utf8")).toContain("login.example.com");
    expect(issuerFiles(place, named.spec)).toContainEqual(
      expect.objectContaining({ path: join(place, "issuer/hosts"), as: "/etc/hosts" }),
    );
  });

  test("is where it was last while names cannot be looked up", async () => {
    await writeIssuer(place, named, at("192.0.2.7"));
    expect(await writeIssuer(place, named, lost)).toEqual([{ address: "192.0.2.7", port: 443 }]);
    expect(hosts()).toContain("192.0.2.7 login.example.com");
  });

  test("is never looked up where it is an address", async () => {
    const cluster = clusterOf("https://192.0.2.9:9443", { ca: "-----BEGIN CERTIFICATE-----\nAA\n" });
    expect(await writeIssuer(place, cluster, lost)).toEqual([{ address: "192.0.2.9", port: 9443 }]);
    expect(issuerFiles(place, cluster.spec)).toHaveLength(1);
    await expect(requireIssuer(cluster.spec.oidc ?? never(), "1.36.4", lost)).resolves.toBeUndefined();
  });

  test("is nobody whom this machine, its clusters or its cloud would answer for", async () => {
    const issuer = named.spec.oidc ?? never();
    await expect(requireIssuer(issuer, "1.36.4", at("127.0.1.1", "169.254.169.254"))).rejects.toThrow(
      "'login.example.com' is 127.0.1.1, 169.254.169.254, which is not an address",
    );
    expect(await writeIssuer(place, named, at("127.0.1.1", "192.0.2.7"))).toHaveLength(1);
    expect(hosts()).not.toContain("127.0.1.1");
    await expect(requireIssuer(issuer, "1.36.4", lost)).rejects.toThrow("cannot look up 'login.example.com'");
    await expect(requireIssuer(issuer, "1.29.1", at("192.0.2.7"))).rejects.toThrow("from 1.30 on it does");
  });

  test("is nobody for clusters that have none", async () => {
    const none = { spec: readVirtualClusterSpec({}), version: "1.36.4" };
    expect(await writeIssuer(place, none, lost)).toEqual([]);
    expect(issuerConfig(place, none.spec)).toBeUndefined();
    expect(issuerFiles(place, none.spec)).toEqual([]);
    expect(await nodeLookup("localhost")).toContain("127.0.0.1");
  });
});

function never(): never {
  throw new Error("it has one");
}
