import { AppError } from "@gpve/contracts/errors.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { createAuthority, privateKeyPem } from "@gpve/kit/pki/x509.ts";
import { describe, expect, test } from "vitest";
import { storageCollection } from "@gpve/domain/storage/definition.ts";
import { volumesElsewhere } from "./volumes/volume-storage.ts";
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

  test("let pods be root of their workers only where an administrator of the nodes says so", async () => {
    const { clusters, names } = await world();
    const as = (...held: readonly string[]) => {
      const require = (path: string, privileges: readonly string[]): void => {
        if (!privileges.every((each) => held.includes(each)))
          throw new AppError("access.denied", `Permission check failed (${path}, ${privileges.join()})`);
      };
      const ctx = { ...context("r"), access: { has: () => false, require } } as unknown as RequestContext;
      const spec = { workerNodes: { privileged: true } };
      return clusters.create({ name: "lab", namespace: "b", spec }, ctx);
    };
    await expect(as("VC.Allocate", "Sys.Modify")).rejects.toThrow(
      "Permission check failed (/, Sys.Modify,Sys.Console)",
    );
    expect(names()).toEqual([]);
    await as("Sys.Modify", "Sys.Console");
    expect(names()).toEqual(["lab"]);
  });

  test("have devices of a node only where an administrator of the nodes says so, also when there shall be more", async () => {
    const { clusters, names, key } = await world();
    const rightless = (path: string, privileges: readonly string[]): void => {
      throw new AppError("access.denied", `Permission check failed (${path}, ${privileges.join()})`);
    };
    const as = (require: (path: string, privileges: readonly string[]) => void) =>
      ({ ...context("r"), access: { has: () => false, require } }) as unknown as RequestContext;
    const [tenant, administrator] = [as(rightless), as(() => undefined)];
    const devices = { "example.com/gpu": 1 };
    const create = (workerNodes: object, ctx: RequestContext) =>
      clusters.create({ name: "lab", namespace: "b", spec: { workerNodes } }, ctx);
    const denied = "Permission check failed (/, Sys.Modify,Sys.Console)";
    await expect(create({ count: 0, devices }, tenant)).rejects.toThrow(denied);
    await expect(create({ pools: [{ name: "a", count: 0, devices }] }, tenant)).rejects.toThrow(denied);
    // The node has told of none.
    await expect(create({ count: 1, devices }, administrator)).rejects.toThrow(
      "0 of 1 nodes can take it: 1 by DeviceFit",
    );
    expect(names()).toEqual([]);
    await create({ count: 0, devices, pools: [{ name: "plain", count: 0 }] }, administrator);
    await expect(clusters.scale(key("lab"), { count: 1 }, tenant, "s")).rejects.toThrow(denied);
    await clusters.scale(key("lab"), { count: 1, pool: "plain" }, tenant, "s2");
  });

  test("have their volumes on a storage that is for that, where who asks may have room there", async () => {
    const { clusters, names, records, asked } = await world();
    const as = (storage: string, ...held: readonly string[]) => {
      const require = (path: string): void => {
        if (!held.includes(path)) throw new AppError("access.denied", `Permission check failed (${path})`);
      };
      const ctx = { ...context("r"), access: { has: () => false, require } } as unknown as RequestContext;
      const spec = { volumes: { storage } };
      return clusters.create({ name: "keeper", namespace: "b", spec }, ctx);
    };
    await records.transact((tx) => {
      const options = { path: "/fast", content: "volumes" };
      for (const [storage, more] of [
        ["fast", {}],
        ["disks", { content: "images" }],
        ["off", { disable: true }],
        ["far", { nodes: "n9" }],
      ] as const)
        tx.put(storageCollection, storage, { storage, type: "dir", options: { ...options, ...more } });
    });
    await expect(as("fast")).rejects.toThrow("Permission check failed (/storage/fast)");
    await expect(as("none", "/storage/none")).rejects.toThrow("there is no storage 'none'");
    await expect(as("disks", "/storage/disks")).rejects.toThrow("its content has to have 'volumes'");
    await expect(as("off", "/storage/off")).rejects.toThrow("storage 'off' is disabled");
    await expect(as("far", "/storage/far")).rejects.toThrow("0 of 1 nodes can take it: 1 by VolumeStorage");
    expect(names()).toEqual([]);
    await as("fast", "/storage/fast");
    expect([names(), asked.at(-1)?.params]).toEqual([
      ["keeper"],
      expect.objectContaining({ spec: { volumes: { storage: "fast" } } }),
    ]);
    expect(volumesElsewhere(records, { volumes: { storage: "none" }, workerNodes: { count: 1 } })).toEqual({
      workerNodes: { count: 1 },
    });
    expect(volumesElsewhere(records, { volumes: { storage: "fast" } })).toEqual({
      volumes: { storage: "fast" },
    });
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
