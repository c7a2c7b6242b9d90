import { AppError } from "@gpve/contracts/errors.ts";
import type { Component } from "@gpve/domain/component/component.ts";
import type { InstalledComponent } from "@gpve/domain/component/ports.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { clusterOperations } from "../application/vcluster/cluster-operations.ts";
import { ClusterPhases } from "../application/vcluster/cluster-phases.ts";
import { clusterRoutes } from "../application/vcluster/cluster-routes.ts";
import { Workers } from "../application/vnode/workers.ts";
import { FakeClusterHost } from "./fake-cluster-host.ts";
import { FakeVnodeDevices } from "./fake-vnode-devices.ts";
import { FakeClusterApi, FakeVnodeHost } from "./fake-vnode-host.ts";

const kubernetes: Component = {
  name: "kubernetes",
  about: "",
  programs: [],
  releases: ["1.36.4", "1.35.6"].map((version) => ({ version, sources: () => [] })),
};
const installed = (version: string): InstalledComponent => ({
  name: "kubernetes",
  version,
  origin: "go",
  installedAt: 1,
  programs: {},
});
export const ctx = {
  actor: { authid: "joe@pve" },
  signal: new AbortController().signal,
} as unknown as RequestContext;
export const base = { node: "n1", vcluster: "demo", tenant: "shop", requestId: "r" };
/** What nobody has, and what can be had instead. */
const refusedPatches: Readonly<Record<string, string>> = { "1.35.6": "1.35.4" };

/** An agent that knows the operations of virtual clusters and has one asked for, `demo` of tenant `shop`. It is in memory. */
export async function clustersWorld(here: readonly string[] = ["1.36.4"]) {
  const host = new FakeClusterHost();
  const { engine, journal } = testEngine();
  const brought: string[] = [];
  const bindings: unknown[] = [];
  const awoken: string[] = [];
  const phases = new ClusterPhases(host, () => undefined);
  const vnodes = new FakeVnodeHost();
  const api = new FakeClusterApi();
  const clock = new FakeClock();
  const workers = new Workers({
    vnodes,
    api: api.call,
    clock,
    ensureComponent: async (name) => void brought.push(name),
    nameServers: () => ({ listed: [], own: [] }),
  });
  const { create, scale, others } = clusterOperations({
    host,
    phases,
    workers,
    ensureComponent: async (name, version, { signal }) => {
      brought.push(`${name} ${version}`);
      if (version === "1.99.9") await clock.sleep(600_000, signal);
    },
    etcdVersion: () => "3.6.8",
    fill: async () => undefined,
  });
  engine.register(create);
  engine.register(scale);
  for (const operation of others) engine.register(operation);
  await engine.start();
  /** The agent ends in the midst of things, and begins again. */
  const restart = async () => {
    await engine.stop(0);
    const between = host.get("demo")?.phase;
    const next = testEngine({ journal });
    next.engine.register(create);
    next.engine.register(scale);
    for (const operation of others) next.engine.register(operation);
    await next.engine.start();
    return between;
  };
  const devices = new FakeVnodeDevices();
  const routes = clusterRoutes({
    host,
    vnodes,
    devices,
    engine,
    clock,
    api: async (_cluster, { path }) =>
      path.endsWith("/clusterrolebindings")
        ? { status: bindings.length === 0 ? 503 : 200, body: { items: bindings } }
        : { status: 404, body: {} },
    catalogue: [kubernetes],
    components: { list: () => here.map(installed) },
    awake: async (name) => void awoken.push(name),
    auditLines: () => ["{}"],
    obtainable: async (version) => refusedPatches[version] ?? version,
    hostNetworks: () => [{ network: "10.17.0.2/16", what: "of eth0 of the node" }],
    requireKata: () => Promise.reject(new AppError("request.invalid", "no Kata here")),
    volumeStorage: async (storage: string) => {
      if (storage !== "fast") throw new AppError("request.invalid", `storage '${storage}' does not exist`);
    },
    requireIssuer: ({ issuerUrl }) =>
      issuerUrl.includes("nowhere")
        ? Promise.reject(new AppError("request.invalid", "this node cannot look up 'nowhere'"))
        : Promise.resolve(),
  });
  let asked = 0;
  const run = async (route: string, more: object = {}): Promise<string> => {
    const handler = routes[route as keyof typeof routes] as (
      asked: object,
      ctx: RequestContext,
    ) => Promise<string>;
    const ended = await engine.wait(await handler({ ...base, requestId: `r${++asked}`, ...more }, ctx));
    return ended.state === "done" ? "done" : `${ended.state}: ${ended.error ?? ""}`;
  };
  const make = (spec: object = {}) => run("POST /gpve/nodes/{node}/vclusters", { spec });
  return { host, run, make, routes, brought, vnodes, devices, api, clock, bindings, awoken, restart };
}
export const at = (verb: string) => `POST /gpve/nodes/{node}/vclusters/{vcluster}/${verb}`;
export const DELETE = "DELETE /gpve/nodes/{node}/vclusters/{vcluster}";
