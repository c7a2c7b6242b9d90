import { describe, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { KeepBalancers } from "./keep-balancers.ts";
import { KeepVolumes } from "./keep-volumes.ts";

interface FakeService {
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec: Readonly<Record<string, string>>;
  status?: object;
}

function world() {
  const cluster: KeptCluster = {
    name: "demo",
    tenant: "t",
    spec: readVirtualClusterSpec({ workerNodes: { count: 2 } }),
    version: "1.36.4",
    network: 7,
    phase: "Running",
    isWanted: true,
  };
  const size = { cpus: 1, memoryBytes: 1 };
  const vnodes: KeptVnode[] = [0, 1].map((slot) => ({
    slot,
    name: `worker-${slot + 1}`,
    size,
    isWanted: true,
  }));
  const state = { clusters: [cluster], up: new Set([0, 1]), answers: true };
  const services: FakeService[] = [];
  const led: string[] = [];
  const lines: string[] = [];
  const api: ClusterApi = async (_cluster, { method, path, body }) => {
    if (!state.answers) throw new Error("nobody answers");
    if (method === "GET") return { status: 200, body: { items: services } };
    const [, name] = /services\/([^/]+)\/status$/.exec(path) ?? [];
    const found = services.find(({ metadata }) => metadata.name === name);
    if (found === undefined) return { status: 404, body: {} };
    found.status = (body as { status: object }).status;
    return { status: 200, body: {} };
  };
  const keeper = new KeepBalancers({
    host: { list: () => state.clusters, isUp: () => true },
    vnodes: { list: () => vnodes, isUp: (_cluster, { slot }) => state.up.has(slot) },
    api,
    routes: {
      addresses: () => ["100.80.7.210"],
      lead: async (network, addresses, slot) => void led.push(`${network}: ${addresses.join()} to ${slot}`),
    },
    clock: new FakeClock(),
    log: {
      warn: (about: object, line: string) => lines.push(`${line} ${JSON.stringify(about)}`),
    } as unknown as Logger,
  });
  const add = (name: string, spec: Readonly<Record<string, string>> = {}): FakeService => {
    const service = { metadata: { name, namespace: "default" }, spec: { type: "LoadBalancer", ...spec } };
    services.push(service);
    return service;
  };
  return { keeper, add, led, lines, services, state };
}

describe("load balancers of a cluster", () => {
  test("get an address that leads to a worker, and nothing is done again while it stays so", async () => {
    const { keeper, add, led } = world();
    const web = add("web");
    await keeper.look();
    await keeper.look();
    expect(web.status).toEqual({ loadBalancer: { ingress: [{ ip: "100.80.7.210", ipMode: "VIP" }] } });
    expect(led).toEqual(["7: 100.80.7.210 to 0"]);
  });

  test("follow to another worker when theirs is lost, and give the address back when they go", async () => {
    const { keeper, add, led, services, state } = world();
    add("web");
    await keeper.look();
    state.up.delete(0);
    await keeper.look();
    services.length = 0;
    await keeper.look();
    expect(led).toEqual(["7: 100.80.7.210 to 0", "7: 100.80.7.210 to 1", "7:  to 1"]);
    state.clusters.length = 0;
    await keeper.look();
    expect(led).toHaveLength(3);
  });

  test("that get none are told of, and what does not answer is looked at later", async () => {
    const { keeper, add, lines, state } = world();
    add("web");
    const other = add("worse", { loadBalancerIP: "192.0.2.1" });
    other.status = { loadBalancer: { ingress: [{ ip: "192.0.2.1" }] } };
    await keeper.look();
    expect(lines.join()).toContain("Service default/worse of demo gets no address");
    expect(other.status).toEqual({ loadBalancer: { ingress: null } });
    state.answers = false;
    await keeper.look();
    expect(lines.at(-1)).toContain("nobody answers");
    keeper.begin();
    keeper.close();
  });
});

test("a cluster whose API is made to take its time keeps the load balancers and volumes of no other waiting", async () => {
  const clock = new FakeClock();
  const clusterOf = (name: string): KeptCluster => ({
    name,
    tenant: "t",
    spec: readVirtualClusterSpec({ workerNodes: { count: 1 } }),
    version: "1.36.4",
    network: 7,
    phase: "Running",
    isWanted: true,
  });
  const asked: string[] = [];
  // As a call that somebody's webhook holds up: it ends when whoever asks gives up.
  const api: ClusterApi = async ({ name }, { path }, signal) => {
    asked.push(`${name} ${path}`);
    if (name === "other") return { status: 200, body: { items: [] } };
    return new Promise((_resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    });
  };
  const lines: string[] = [];
  const log = { warn: (about: object) => lines.push(JSON.stringify(about)) } as unknown as Logger;
  const vnode = { slot: 0, name: "worker-1", size: { cpus: 1, memoryBytes: 1 }, isWanted: true };
  const vnodes = { list: () => [vnode], isUp: () => true, volumes: () => [] };
  const host = { list: () => [clusterOf("slow"), clusterOf("other")], isUp: () => true };
  const routes = { addresses: () => [], lead: async () => undefined };
  const keepers = [
    new KeepBalancers({ host, vnodes, api, routes, clock, log }),
    new KeepVolumes({ host, vnodes: vnodes as unknown as VnodeHost, api, clock, log }),
  ];
  for (const keeper of keepers) {
    const looked = keeper.look();
    for (let at = 0; at < 20; at++) await clock.advance(1_000);
    await looked;
  }
  expect(asked).toEqual(
    expect.arrayContaining(["other /api/v1/services", "other /api/v1/persistentvolumes"]),
  );
  expect(lines.every((line) => line.includes("takes longer than 15 s"))).toBe(true);
});
