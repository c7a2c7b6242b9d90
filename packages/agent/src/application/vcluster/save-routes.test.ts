import { describe, expect, test } from "vitest";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Component } from "@gpve/domain/component/component.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import { FakeClusterHost } from "../../testing/fake-cluster-host.ts";
import { FakeClusterSaves } from "../../testing/fake-cluster-saves.ts";
import { FakeVnodeDevices } from "../../testing/fake-vnode-devices.ts";
import { FakeVnodeHost } from "../../testing/fake-vnode-host.ts";
import { saveRoutes } from "./save-routes.ts";

const kubernetes: Component = {
  name: "kubernetes",
  about: "",
  programs: [],
  releases: ["1.37.0", "1.36.4", "1.35.6"].map((version) => ({ version, sources: () => [] })),
};
const demo: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec: readVirtualClusterSpec({}),
  version: "1.35.6",
  network: 7,
  phase: "Running",
  isWanted: true,
};
const ctx = {
  actor: { authid: "joe@pve" },
  signal: new AbortController().signal,
} as unknown as RequestContext;
const base = { node: "n1", vcluster: "demo", tenant: "shop", requestId: "r" };
const ARCHIVE = "local:backup/vzdump-vc-demo_shop-2026_01_02-03_04_05.tar.gz";

async function world(cluster: KeptCluster = demo) {
  const host = new FakeClusterHost();
  host.save(cluster);
  const saves = new FakeClusterSaves();
  await saves.pack({ ...demo, version: "1.35.1" }, `/dump/${ARCHIVE}`);
  const submitted: { type: string; args: object }[] = [];
  const woken: string[] = [];
  const routes = saveRoutes({
    host,
    saves,
    vnodes: new FakeVnodeHost(),
    devices: new FakeVnodeDevices(),
    engine: {
      submit: async ({ type, args }: { type: string; args: object }) => {
        submitted.push({ type, args });
        return { upid: `UPID:${type}` };
      },
    } as never,
    catalogue: [kubernetes],
    components: { list: () => [] },
    awake: async (name) => void woken.push(name),
    hostNetworks: () => [{ network: "10.17.0.2/16", what: "of eth0 of the node" }],
    requireKata: () => Promise.reject(new AppError("request.invalid", "no Kata here")),
    requireIssuer: () => Promise.reject(new AppError("request.invalid", "that issuer does not answer")),
    volumeStorage: (storage: string) =>
      Promise.reject(new AppError("request.invalid", `storage '${storage}' does not exist`)),
    places: {
      open: async () => ({}) as never,
      file: async (volid) => `/dump/${volid}`,
      list: async () => [{ file: "f", volid: "local:backup/f", sizeBytes: 1, time: 2 }],
    },
  });
  return { host, routes, submitted, woken };
}

describe("asking a node to save a cluster", () => {
  test("backs it up for its own tenant alone, and lists what there is", async () => {
    const { routes, submitted } = await world();
    const backup = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/backup"];
    expect(await backup({ ...base, storage: "local", notes: "hi" }, ctx)).toBe("UPID:vcbackup");
    expect(submitted[0]?.args).toEqual({ name: "demo", storage: "local", notes: "hi" });
    await expect(backup({ ...base, tenant: "other", storage: "local" }, ctx)).rejects.toThrow("there is no");
    expect(await routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/backups"](base, ctx)).toEqual([
      { archive: "local:backup/f", sizeBytes: 1, time: 2 },
    ]);
  });

  test("restores under another name with authorities of its own, under its own as it was", async () => {
    const { host, routes, submitted } = await world();
    const restore = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/restore"];
    const asked = { ...base, archive: ARCHIVE, source: "shop", spec: {}, over: false };
    expect(await restore({ ...asked, vcluster: "copy" }, ctx)).toBe("UPID:vcrestore");
    // The patch that it had is not to be had: the newest of its minor.
    expect(submitted[0]?.args).toMatchObject({ version: "1.35.6", fill: { identity: "fresh" } });
    await expect(restore(asked, ctx)).rejects.toThrow("already");
    expect(await restore({ ...asked, over: true }, ctx)).toBe("UPID:vcrestoreover");
    await host.remove("demo");
    await restore(asked, ctx);
    expect(submitted.at(-1)?.args).toMatchObject({ name: "demo", fill: { identity: "whole" } });
  });

  test("knows by its name in its tenant whether a backup is of itself, whatever its key is", async () => {
    const { host, routes, submitted } = await world();
    await host.remove("demo");
    const restore = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/restore"];
    const asked = { ...base, archive: ARCHIVE, source: "shop", spec: {}, over: false };
    await restore({ ...asked, vcluster: "0-demo-x", called: "demo" }, ctx);
    expect(submitted.at(-1)?.args).toMatchObject({
      name: "0-demo-x",
      called: "demo",
      fill: { identity: "whole" },
    });
    await restore({ ...asked, vcluster: "0-demo-y", called: "demo", tenant: "lab" }, ctx);
    expect(submitted.at(-1)?.args).toMatchObject({ name: "0-demo-y", fill: { identity: "fresh" } });
  });

  test("gives another cluster's authorities away to none whose place its backup takes", async () => {
    const { host, routes, submitted } = await world({ ...demo, name: "0-demo-x", called: "demo" });
    const restore = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/restore"];
    const asked = { ...base, archive: ARCHIVE, source: "shop", spec: {}, over: true };
    await restore({ ...asked, vcluster: "0-demo-x" }, ctx);
    expect(submitted.at(-1)?.args).toMatchObject({ name: "0-demo-x", identity: "whole" });
    host.save({ ...demo, name: "0-dev-y", called: "dev" });
    await restore({ ...asked, vcluster: "0-dev-y" }, ctx);
    expect(submitted.at(-1)?.args).toMatchObject({ name: "0-dev-y", identity: "fresh" });
    host.save({ ...demo, name: "0-demo-z", called: "demo", tenant: "lab" });
    await restore({ ...asked, vcluster: "0-demo-z", tenant: "lab" }, ctx);
    expect(submitted.at(-1)?.args).toMatchObject({ name: "0-demo-z", identity: "fresh" });
    expect(submitted.every(({ type }) => type === "vcrestoreover")).toBe(true);
  });

  test("restores nothing that it would not make: a network of its own, no Kata, an issuer it does not reach", async () => {
    const { routes, submitted } = await world();
    const restore = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/restore"];
    const oidc = { issuerUrl: "https://login.example.com", clientId: "kube" };
    for (const [spec, why] of [
      [{ networking: { podCIDR: "10.17.0.0/16" } }, "overlaps 10.17.0.2/16"],
      [{ isolationLevel: "L2" }, "no Kata here"],
      [{ controlPlane: { oidc } }, "that issuer does not answer"],
    ] as const)
      for (const asked of [
        { vcluster: "copy", over: false },
        { vcluster: "demo", over: true },
      ])
        await expect(
          restore({ ...base, ...asked, archive: ARCHIVE, source: "shop", spec }, ctx),
        ).rejects.toThrow(why);
    expect(submitted).toEqual([]);
  });

  test("reads nothing of another tenant's archive, whatever its name says", async () => {
    const { routes } = await world();
    const archive = routes["GET /gpve/nodes/{node}/vcluster-archive"];
    expect(await archive({ node: "n1", archive: ARCHIVE, tenant: "shop" }, ctx)).toMatchObject({
      name: "demo",
      kubernetesVersion: "1.35.1",
    });
    await expect(archive({ node: "n1", archive: ARCHIVE, tenant: "other" }, ctx)).rejects.toThrow(
      "is of another tenant",
    );
  });

  test("upgrades by a minor, and refuses what is none with the reason", async () => {
    const { routes, submitted, woken } = await world();
    const upgrade = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade"];
    await upgrade({ ...base, version: "1.36", drain: false }, ctx);
    expect(submitted[0]).toEqual({
      type: "vcupgrade",
      args: { name: "demo", version: "1.36.4", drain: false },
    });
    expect(woken).toEqual(["demo"]);
    const refused = (version: string) => upgrade({ ...base, version, drain: false }, ctx);
    await expect(refused("1.37")).rejects.toThrow("go to 1.36 first");
    await expect(refused("1.35.6")).rejects.toThrow("that is what it runs");
    await expect(refused("1.99")).rejects.toThrow("component import");
    const stopped = await world({ ...demo, phase: "Stopped" });
    const route = stopped.routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade"];
    await expect(route({ ...base, version: "1.36", drain: false }, ctx)).rejects.toThrow("is Stopped");
  });

  test("upgrades its part of one on several nodes when a server says which, and not by itself", async () => {
    const nodes = ["a", "b"].map((node) => ({ node, address: "192.0.2.1" }));
    const { routes, submitted, woken } = await world({ ...demo, overlay: { nodes, at: 1 } });
    const path = routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/upgrade-path"];
    expect(await path({ ...base, version: "1.36" }, ctx)).toEqual({ from: "1.35.6", to: "1.36.4" });
    const upgrade = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade"];
    const asked = { ...base, version: "1.36.4", drain: false };
    await expect(upgrade(asked, ctx)).rejects.toThrow("node after node");
    const part = { only: "workers", from: "1.35.6" } as const;
    await upgrade({ ...asked, part }, ctx);
    expect(submitted[0]?.args).toEqual({ name: "demo", version: "1.36.4", drain: false, part });
    // Its control plane is another node's to wake.
    expect(woken).toEqual([]);
  });

  test("reads an etcd that runs", async () => {
    const spec = readVirtualClusterSpec({ controlPlane: { backingStore: "etcd" } });
    const { routes, submitted } = await world({ ...demo, spec });
    const backup = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/backup"];
    await backup({ ...base, storage: "local" }, ctx);
    expect(submitted).toMatchObject([{ type: "vcbackup" }]);
    const stopped = await world({ ...demo, spec, phase: "Stopped" });
    const refused = stopped.routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/backup"];
    await expect(refused({ ...base, storage: "local" }, ctx)).rejects.toThrow("while it is Running");
  });

  test("puts a backup into an etcd of its own, beside it or in its place, and does not change the kind of store", async () => {
    const controlPlane = { backingStore: "etcd" };
    const spec = readVirtualClusterSpec({ controlPlane });
    const { routes, submitted } = await world({ ...demo, spec });
    const restore = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/restore"];
    const from = { ...base, archive: ARCHIVE, source: "shop", spec: { controlPlane } };
    await restore({ ...from, vcluster: "copy", over: false }, ctx);
    await restore({ ...from, over: true }, ctx);
    const put = { spec: { backingStore: "etcd" } };
    expect(submitted).toMatchObject([
      { type: "vcrestore", args: put },
      { type: "vcrestoreover", args: put },
    ]);
    await expect(restore({ ...from, spec: {}, over: true }, ctx)).rejects.toThrow("and keeps it");
    expect(submitted).toHaveLength(2);
  });

  test("touches nothing of one whose store is somebody else's", async () => {
    const controlPlane = { backingStore: "external", externalEtcdEndpoint: "https://192.0.2.1:2379" };
    const { routes, submitted, woken } = await world({
      ...demo,
      spec: readVirtualClusterSpec({ controlPlane }),
    });
    const backup = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/backup"];
    const restore = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/restore"];
    const upgrade = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/upgrade"];
    const from = { ...base, archive: ARCHIVE, source: "shop" };
    const why = "store of kind external";
    await expect(backup({ ...base, storage: "local" }, ctx)).rejects.toThrow(why);
    await expect(restore({ ...from, spec: {}, over: true }, ctx)).rejects.toThrow(why);
    // Nor is a backup of ours made one with such a store.
    const asNew = { ...from, vcluster: "copy", spec: { controlPlane }, over: false };
    await expect(restore(asNew, ctx)).rejects.toThrow(why);
    await expect(upgrade({ ...base, version: "1.36", drain: false }, ctx)).rejects.toThrow(why);
    expect([submitted, woken]).toEqual([[], []]);
  });
});
