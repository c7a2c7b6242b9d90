import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { createAuthority, privateKeyPem } from "@gpve/kit/pki/x509.ts";
import { describe, expect, test } from "vitest";
import { context, vclusterWorld as world } from "../../testing/vcluster-world.ts";

describe("virtual clusters that reach out of themselves", () => {
  test("go to an etcd that somebody else runs only for who may have the node do so", async () => {
    const { clusters, names } = await world();
    const { certPem: ca, key } = await createAuthority("etcd", Date.now());
    const externalEtcdCertificates = { ca, cert: ca, key: await privateKeyPem(key) };
    const controlPlane = {
      backingStore: "external",
      externalEtcdEndpoint: "https://192.168.1.1:2379",
      externalEtcdCertificates,
    };
    const as = (...held: readonly string[]) => {
      const has = (path: string, privileges: readonly string[]): boolean =>
        privileges.every((each) => held.includes(`${path} ${each}`));
      const require = (path: string, privileges: readonly string[]): void => {
        if (!has(path, privileges))
          throw new AppError("access.denied", `Permission check failed (${path}, ${privileges.join()})`);
      };
      const ctx = { ...context("r"), access: { has, require } } as unknown as RequestContext;
      return clusters.create({ name: "abroad", namespace: "b", spec: { controlPlane } }, ctx);
    };
    await expect(as("/pool/b VC.Allocate")).rejects.toThrow(
      "Permission check failed (/nodes/n1, Sys.AccessNetwork)",
    );
    expect(names()).toEqual([]);
    await as("/nodes/n1 Sys.AccessNetwork");
    expect(names()).toEqual(["abroad"]);
  });

  test("ask an OpenID issuer only for who may have the node do so", async () => {
    const { clusters, names } = await world();
    const oidc = { issuerUrl: "https://192.168.1.1:9443", clientId: "kube" };
    const require = (path: string, privileges: readonly string[]): void => {
      throw new AppError("access.denied", `Permission check failed (${path}, ${privileges.join()})`);
    };
    const ctx = { ...context("r"), access: { has: () => false, require } } as unknown as RequestContext;
    const spec = { controlPlane: { oidc } };
    await expect(clusters.create({ name: "known", namespace: "b", spec }, ctx)).rejects.toThrow(
      "Permission check failed (/nodes/n1, Sys.AccessNetwork)",
    );
    expect(names()).toEqual([]);
  });

  test("let pods out in the node's name only for who may have the node do so", async () => {
    const { clusters, names } = await world();
    const as = (...held: readonly string[]) => {
      const has = (path: string, privileges: readonly string[]): boolean =>
        privileges.every((each) => held.includes(`${path} ${each}`));
      const require = (path: string, privileges: readonly string[]): void => {
        if (!has(path, privileges))
          throw new AppError("access.denied", `Permission check failed (${path}, ${privileges.join()})`);
      };
      const ctx = { ...context("r"), access: { has, require } } as unknown as RequestContext;
      const spec = { networking: { egress: "nat" } };
      return clusters.create({ name: "wide", namespace: "b", spec }, ctx);
    };
    await expect(as("/pool/b VC.Allocate")).rejects.toThrow(
      "Permission check failed (/nodes/n1, Sys.AccessNetwork)",
    );
    expect(names()).toEqual([]);
    await as("/", "/nodes/n1 Sys.AccessNetwork");
    expect(names()).toEqual(["wide"]);
  });
});
