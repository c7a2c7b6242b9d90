import { describe, expect, test } from "vitest";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterAuthorities, ClusterRotation } from "@gpve/domain/vcluster/rotate/authorities.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import { silentLogger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { testEngine } from "@gpve/kit/testing/operation-engine.ts";
import { FakeClusterHost } from "../../../testing/fake-cluster-host.ts";
import { FakeVnodeHost } from "../../../testing/fake-vnode-host.ts";
import { ClusterPhases } from "../cluster-phases.ts";
import { KeepCertificates } from "../renew/keep-certificates.ts";
import { rotateOperations } from "./rotate-operations.ts";
import { rotatePart, takeAuthorityRoutes } from "./rotate-part.ts";
import { rotateRoutes } from "./rotate-routes.ts";

const demo: KeptCluster = {
  name: "demo",
  tenant: "shop",
  spec: readVirtualClusterSpec({ workerNodes: { count: 1 } }),
  version: "1.36.4",
  network: 7,
  phase: "Running",
  isWanted: true,
};
const ctx = { signal: new AbortController().signal } as RequestContext;

async function world() {
  const [host, vnodes] = [new FakeClusterHost(), new FakeVnodeHost()];
  host.save(demo);
  host.running.add("demo");
  vnodes.save("demo", { slot: 0, name: "worker-1", size: demo.spec.workerSize, isWanted: true });
  const done: string[] = [];
  let rotation: ClusterRotation | undefined;
  const authorities: ClusterAuthorities = {
    rotation: () => rotation,
    trust: () => (rotation === undefined ? "NEW" : "NEW OLD"),
    begin: async (_name, until) => {
      done.push("begin");
      rotation = { until };
    },
    settle: () => {
      if (rotation !== undefined) rotation = { ...rotation, isWhole: true };
    },
    turn: () => {
      done.push("turn");
    },
    drop: () => {
      done.push("drop");
      rotation = undefined;
    },
  };
  const start = host.start.bind(host);
  host.start = async (cluster, signal, say) => {
    await start(cluster, signal, say);
    done.push(`start, trusts ${authorities.trust("demo")}`);
  };
  const published = { pem: "NEW OLD" };
  const api: ClusterApi = async (cluster, { method, path }) => {
    const gitVersion = `v${cluster.version}`;
    if (path === "/version") return { status: 200, body: { gitVersion } };
    if (method === "DELETE" || path.endsWith("/deployments/coredns"))
      done.push(`${method} ${path.split("/").at(-1)}`);
    const items = [{ metadata: { namespace: "default" }, data: { "ca.crt": published.pem } }];
    if (path.startsWith("/api/v1/configmaps?")) return { status: 200, body: { items } };
    const conditions = [{ type: "Ready", status: "True" }];
    return { status: 200, body: { status: { conditions, nodeInfo: { kubeletVersion: gitVersion } } } };
  };
  const ways = { hold: async () => undefined, unhold: () => undefined, tell: async () => undefined };
  const phases = new ClusterPhases(host, () => undefined);
  const clock = new FakeClock(1_000_000);
  const { engine } = testEngine({ clock });
  const rotating = { host, phases, ways, vnodes, api, authorities };
  const { rotate, drop } = rotateOperations(rotating);
  engine.register(rotate);
  engine.register(drop);
  engine.register(rotatePart(rotating));
  await engine.start();
  const routes = rotateRoutes({ host, authorities, engine, awake: async () => undefined });
  let count = 0;
  const ask = async (more: object = {}, tenant = "shop"): Promise<string> => {
    const asked = { node: "n1", vcluster: "demo", tenant, requestId: `r${++count}`, ...more };
    const upid = await routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/rotate-ca"](asked, ctx);
    const { state, error = "" } = await engine.wait(upid);
    return state === "done" ? "done" : `${state}: ${error}`;
  };
  const keeper = new KeepCertificates({
    host,
    isDue: () => false,
    authorities,
    engine,
    clock,
    log: silentLogger,
  });
  return { host, vnodes, done, authorities, published, clock, ask, keeper };
}

const RESTARTED = ["demo/worker-1/kubelet", "demo/worker-1/kube-proxy"];

describe("the authority of a cluster", () => {
  test("is exchanged in two parts: both are trusted, then the new one alone", async () => {
    const { vnodes, done, authorities, clock, ask } = await world();
    expect(await ask({ graceHours: 2 })).toBe("done");
    expect(done.splice(0)).toEqual(["begin", "start, trusts NEW OLD", "PATCH coredns"]);
    expect(vnodes.restarted.splice(0)).toEqual(RESTARTED);
    expect(authorities.rotation("demo")).toEqual({ until: clock.now() + 7_200_000, isWhole: true });
    await expect(ask()).rejects.toThrow("has a new authority already");
    expect(await ask({ dropOld: true })).toBe("done");
    expect(done).toEqual(["drop", "start, trusts NEW", "DELETE extension-apiserver-authentication"]);
    expect(vnodes.restarted).toEqual(RESTARTED);
    await expect(ask({ dropOld: true })).rejects.toThrow("has one authority alone");
  });

  test("is gone on with where the first part did not come to its end, and dropped only then", async () => {
    const { host, done, authorities, ask } = await world();
    host.broken.add("furnish");
    expect(await ask()).toContain("furnish is broken");
    expect(host.get("demo")).toMatchObject({ phase: "Running", asleep: "cold" });
    await expect(ask({ dropOld: true })).rejects.toThrow("goes on with that");
    host.broken.delete("furnish");
    // Whoever connects has it woken; here that has happened.
    host.save(demo);
    expect(await ask()).toBe("done");
    expect(done.filter((each) => each === "begin")).toHaveLength(1);
    expect(authorities.rotation("demo")?.isWhole).toBe(true);
  });

  test("does not wait for ever for pods to be told, and says so", async () => {
    const { done, published, clock, ask } = await world();
    published.pem = "OLD";
    const asked = ask();
    let isOver = false;
    void asked.finally(() => (isOver = true));
    await expect
      .poll(async () => {
        await clock.advance(5_000);
        return isOver;
      })
      .toBe(true);
    expect(await asked).toBe("done");
    expect(done).toContain("PATCH coredns");
  });

  test("is dropped by itself when its time is over, and not before", async () => {
    const { done, clock, authorities, keeper, ask } = await world();
    await ask({ graceHours: 1 });
    await keeper.look();
    expect(done).not.toContain("drop");
    await clock.advance(3_600_000);
    await keeper.look();
    expect(done).toContain("drop");
    expect(authorities.rotation("demo")).toBeUndefined();
  });

  test("is refused for what is elsewhere, of others, or does not run, before anything is touched", async () => {
    const { host, done, ask } = await world();
    await expect(ask({}, "other")).rejects.toThrow("there is no virtual cluster 'demo'");
    const nodes = [{ node: "n1", address: "192.0.2.1" }];
    host.save({ ...demo, overlay: { nodes, at: 0 } });
    await expect(ask()).rejects.toThrow("is on several nodes");
    host.save({ ...demo, phase: "Stopped" });
    await expect(ask()).rejects.toThrow("is Stopped");
    host.save({ ...demo, asleep: "cold" });
    expect(await ask()).toContain("does not run now");
    expect(done).toEqual([]);
  });

  test("of a cluster on several nodes is exchanged part by part, as a server says", async () => {
    const { host, vnodes, done, authorities, clock, ask, keeper } = await world();
    const nodes = ["n1", "n2"].map((node) => ({ node, address: "192.0.2.1" }));
    host.save({ ...demo, overlay: { nodes, at: 0 } });
    for (const part of ["begin", "control plane", "workers", "pods"])
      expect(await ask({ part })).toBe("done");
    expect(done.splice(0)).toEqual(["begin", "start, trusts NEW OLD", "PATCH coredns"]);
    expect(vnodes.restarted.splice(0)).toEqual(RESTARTED);
    expect(await ask({ part: "turn" })).toContain("not all of virtual cluster 'demo' has");
    expect(await ask({ part: "settle" })).toBe("done");
    expect(authorities.rotation("demo")?.isWhole).toBe(true);
    expect(await ask({ part: "begin" })).toContain("has a new authority already");
    // Who has copies is told that there are others.
    expect(host.get("demo")?.keysAt).toBe(clock.now());
    await clock.advance(2 * 168 * 3_600_000);
    await keeper.look();
    expect(done).toEqual([]);
    for (const part of ["turn", "control plane", "forget", "control plane", "workers", "leavings"])
      expect(await ask({ part })).toBe("done");
    expect(done).toEqual([
      "turn",
      "start, trusts NEW OLD",
      "drop",
      "start, trusts NEW",
      "DELETE extension-apiserver-authentication",
    ]);
  });

  test("comes to other nodes by a server's hands, and to nobody whose it is not", async () => {
    const { host, authorities } = await world();
    const routes = takeAuthorityRoutes({ host, authorities });
    const take = (tenant: string): unknown =>
      routes["PUT /gpve/nodes/{node}/vclusters/{vcluster}/authority"](
        { node: "n1", vcluster: "demo", tenant, secrets: { "ca.key": "K" } },
        ctx,
      );
    expect(() => take("other")).toThrow("there is no virtual cluster 'demo'");
    expect(() => take("shop")).toThrow("all of virtual cluster 'demo' is on this node");
    const nodes = ["n1", "n2"].map((node) => ({ node, address: "192.0.2.1" }));
    host.save({ ...demo, overlay: { nodes, at: 1, home: 0 } });
    expect(take("shop")).toBeNull();
    expect(host.authorities.get("demo")).toEqual({ "ca.key": "K" });
    const asked = { node: "n1", vcluster: "demo", tenant: "shop" };
    expect(routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/rotation"](asked, ctx)).toEqual({});
  });
});
