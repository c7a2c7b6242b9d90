import { describe, expect, test } from "vitest";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { readVirtualClusterSpec } from "@gpve/domain/vcluster/vcluster-spec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { FakeClock } from "@gpve/kit/testing/fake-clock.ts";
import { testSaga } from "@gpve/kit/testing/saga-harness.ts";
import { at, base, clustersWorld as world, ctx, DELETE } from "../../testing/clusters-world.ts";
import { FakeClusterHost } from "../../testing/fake-cluster-host.ts";
import { clusterOperations, CREATE_CLUSTER } from "./cluster-operations.ts";
import { ClusterPhases } from "./cluster-phases.ts";
import { KeepClusters } from "./keep-clusters.ts";

describe("level L2", () => {
  test("is refused by a node that has no Kata, whatever a server believed", async () => {
    const { make, host } = await world();
    await expect(make({ isolationLevel: "L2" })).rejects.toThrow("no Kata here");
    expect(host.list()).toEqual([]);
  });
});

describe("a virtual cluster that is deleted while it is made", () => {
  test("is gone at once, and nobody waits for what its creation waits for", async () => {
    const { make, run, host, brought } = await world(["1.99.9"]);
    const making = make({ kubernetesVersion: "1.99.9" });
    await expect.poll(() => brought, { timeout: 30_000 }).toEqual(["kubernetes 1.99.9"]);
    expect(await run(DELETE)).toBe("done");
    expect(await making).toContain("cancelled");
    expect(host.list()).toEqual([]);
  });

  test("is gone also where its creation ended before it began", async () => {
    const { run, host } = await world();
    const spec = readVirtualClusterSpec({});
    host.save({
      name: "demo",
      tenant: "shop",
      spec,
      version: "1.36.4",
      phase: "Pending",
      isWanted: false,
    });
    expect(await run(DELETE)).toBe("done");
    expect(host.list()).toEqual([]);
  });
});

describe("the quota of a virtual cluster", () => {
  test("is what was said last, and what is not said has no bound", async () => {
    const { make, host, routes } = await world();
    await make({ quota: { storage: "1Gi", cpu: "4" } });
    const route = "PUT /gpve/nodes/{node}/vclusters/{vcluster}/quota" as const;
    const asked = { node: "n1", vcluster: "demo", tenant: "shop", quota: { storage: "3Gi" } };
    await routes[route](asked, ctx);
    expect(host.get("demo")?.spec).toMatchObject({ volumeBytes: 3 * 2 ** 30 });
    expect(host.get("demo")?.spec).not.toHaveProperty("workerQuota");
    expect(() => routes[route]({ ...asked, tenant: "lab" }, ctx)).toThrow("there is no virtual cluster");
  });
});

describe("devices of workers", () => {
  const asked = { workerNodes: { count: 1, devices: { "example.com/gpu": 1 } } };

  test("are refused by a node that has too few, and nothing is left", async () => {
    const { make, host } = await world();
    await expect(make(asked)).rejects.toThrow("0 example.com/gpu of 1 are free");
    expect(host.list()).toEqual([]);
  });

  test("are looked at again when there shall be more workers", async () => {
    const { make, run, devices, vnodes } = await world();
    devices.has.set("example.com/gpu", 2);
    expect(await make(asked)).toBe("done");
    expect(vnodes.list("demo")[0]?.devices).toEqual({ "example.com/gpu": 1 });
    await expect(run(at("scale"), { workers: 3 })).rejects.toThrow("2 example.com/gpu of 3 are free");
    expect(await run(at("scale"), { workers: 2 })).toBe("done");
  });
});

describe("volumes on a storage", () => {
  test("are refused by a node that does not have it, and nothing is left", async () => {
    const { make, host } = await world();
    await expect(make({ volumes: { storage: "none" } })).rejects.toThrow("storage 'none' does not exist");
    expect(host.list()).toEqual([]);
    await make({ volumes: { storage: "fast" } });
    expect(host.list()).toHaveLength(1);
  });
});

describe("networks of a virtual cluster", () => {
  test("are refused where the node is in them, and nothing is left", async () => {
    const { make, host } = await world();
    await expect(make({ networking: { podCIDR: "10.16.0.0/15" } })).rejects.toThrow(
      "spec.networking.podCIDR: 10.16.0.0/15 overlaps 10.17.0.2/16, of eth0 of the node",
    );
    expect(host.list()).toEqual([]);
    expect(await make()).toBe("done");
  });
});

describe("the store of a virtual cluster", () => {
  const pem = (what: string) => `-----BEGIN ${what}-----\nAAAA\n-----END ${what}-----\n`;
  const external = {
    backingStore: "external",
    externalEtcdEndpoint: "https://192.0.2.9:2379",
    externalEtcdCertificates: {
      ca: pem("CERTIFICATE"),
      cert: pem("CERTIFICATE"),
      key: pem("EC PRIVATE KEY"),
    },
  };

  test("is an etcd of its own in tier Performance, of the version that it began with", async () => {
    const { host, make, run, brought } = await world();
    expect(await make({ controlPlane: { tier: "Performance" } })).toBe("done");
    expect([host.get("demo")?.etcdVersion, brought]).toEqual(["3.6.8", ["kubernetes 1.36.4", "etcd 3.6.8"]]);
    host.save({ ...(host.get("demo") as KeptCluster), etcdVersion: "3.6.1", phase: "Failed" });
    expect(await run(at("retry"))).toBe("done");
    expect(brought.at(-1)).toBe("etcd 3.6.1");
  });

  test("is somebody else's: its keys go to files and to no journal", async () => {
    const { host, make, brought } = await world();
    expect(await make({ controlPlane: external })).toBe("done");
    expect(host.storeKeys.get("demo")).toEqual(external.externalEtcdCertificates);
    expect(JSON.stringify([...host.kept.values()])).not.toContain("PRIVATE KEY");
    expect(brought).toEqual(["kubernetes 1.36.4"]);
  });

  test("is not made for a cluster whose OpenID issuer its node cannot find", async () => {
    const { make, host } = await world();
    const oidc = (issuerUrl: string) => ({ controlPlane: { oidc: { issuerUrl, clientId: "kube" } } });
    await expect((async () => make(oidc("https://nowhere")))()).rejects.toThrow("cannot look up 'nowhere'");
    expect(host.kept.size).toBe(0);
    expect(await make(oidc("https://login.example.com"))).toBe("done");
  });

  test("is refused without keys", async () => {
    const { make, host } = await world();
    const { externalEtcdCertificates: _keys, ...without } = external;
    await expect((async () => make({ controlPlane: without }))()).rejects.toThrow("as PEM");
    expect(host.kept.size).toBe(0);
  });
});

describe("a virtual cluster on several nodes", () => {
  const nodes = ["a", "b"].map((node, index) => ({ node, address: `192.0.2.${index + 1}` }));
  const POST = "POST /gpve/nodes/{node}/vclusters";

  test("has its control plane on the first, which says what signs before anything is made", async () => {
    const { host, run, routes } = await world();
    const handler = routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/authority"];
    expect(await run(POST, { spec: {}, network: 2048, overlay: { nodes, at: 0 } })).toBe("done");
    expect(host.get("demo")).toMatchObject({ phase: "Running", overlay: { at: 0 } });
    expect(await handler({ node: "n1", vcluster: "demo", tenant: "shop" }, ctx)).toMatchObject({
      version: "1.36.4",
      secrets: { "ca.key": "KEY" },
    });
  });

  test("takes what signs on the others, and no store of its own there", async () => {
    const { host, run, brought } = await world();
    const more = { overlay: { nodes, at: 1 }, network: 2048, secrets: { "ca.key": "K" } };
    expect(await run(POST, { spec: { controlPlane: { tier: "Performance" } }, ...more })).toBe("done");
    expect(host.authorities.get("demo")).toEqual({ "ca.key": "K" });
    expect([host.get("demo")?.phase, brought]).toEqual(["Running", ["kubernetes 1.36.4"]]);
  });

  test("has a replica of its control plane on each, the first of which begins the store", async () => {
    const spec = { controlPlane: { tier: "Enterprise" } };
    const three = ["a", "b", "c"].map((node, slot) => ({ node, address: `192.0.2.${slot + 1}`, slot }));
    const first = await world();
    expect(await first.run(POST, { spec, network: 2048, overlay: { nodes: three, at: 0 } })).toBe("done");
    expect(first.host.get("demo")).toMatchObject({ phase: "Running", isFirst: true });
    expect(first.brought).toEqual(["kubernetes 1.36.4", "etcd 3.6.8"]);
    const authority = first.routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/authority"];
    const { secrets } = await authority({ node: "n1", vcluster: "demo", tenant: "shop" }, ctx);
    expect(secrets).toMatchObject({ "sa.key": "SA" });
    const next = await world();
    expect(await next.run(POST, { spec, network: 2048, overlay: { nodes: three, at: 1 }, secrets })).toBe(
      "done",
    );
    expect(next.host.get("demo")).not.toHaveProperty("isFirst");
    expect([next.host.authorities.get("demo"), next.brought.at(-1)]).toEqual([secrets, "etcd 3.6.8"]);
  });

  test("is refused where the kernel has no such network, with nothing left", async () => {
    const { host, run } = await world();
    host.broken.add("overlay");
    const asked = run(POST, { spec: {}, network: 2048, overlay: { nodes, at: 0 } });
    await expect(asked).rejects.toThrow("cannot make a VXLAN device");
    expect(host.kept.size).toBe(0);
  });
});

describe("the life of a virtual cluster", () => {
  test("goes from asking to running, stops, starts and ends with nothing left", async () => {
    const { host, run, make, brought } = await world();
    expect(await make()).toBe("done");
    expect([host.get("demo")?.phase, host.isUp(host.get("demo") as KeptCluster), brought]).toEqual([
      "Running",
      true,
      ["kubernetes 1.36.4"],
    ]);
    expect(await run(at("stop"))).toBe("done");
    expect(await run(at("stop"))).toBe("done");
    expect([host.get("demo")?.phase, host.running.size]).toEqual(["Stopped", 0]);
    expect(host.resting.has("demo")).toBe(true);
    await expect(run(at("wake"))).rejects.toThrow(
      "is Stopped and cannot be woken: start it (gpvectl vc start",
    );
    expect(await run(at("start"))).toBe("done");
    await expect(run(at("retry"))).rejects.toThrow("is Running and cannot be tried again: nothing of it");
    expect(await run(DELETE)).toBe("done");
    expect([host.kept.size, host.networks.size, host.running.size]).toEqual([0, 0, 0]);
    expect(host.phases).toEqual([
      "Pending",
      "Provisioning",
      "Initializing",
      "Running",
      "Stopping",
      "Stopped",
      "Running",
      "Terminating",
    ]);
  });

  test("that is stopped and cannot be started stays stopped, with the reason and nothing of it running", async () => {
    const { host, run, make, vnodes } = await world();
    expect(await make({ workerNodes: { count: 1 } })).toBe("done");
    expect(await run(at("stop"))).toBe("done");
    vnodes.broken.add("start");
    expect(await run(at("start"))).toContain("start is broken");
    expect([host.running.size, vnodes.running.size]).toEqual([0, 0]);
    expect(host.get("demo")).toMatchObject({ phase: "Stopped", message: "start is broken" });
    expect(host.resting.has("demo")).toBe(true);
    vnodes.broken.clear();
    expect(await run(at("start"))).toBe("done");
    expect(host.get("demo")).not.toHaveProperty("message");
  });

  test("whose processes do not end is Stopping with the reason, and is stopped again or deleted", async () => {
    const { host, run, make } = await world();
    await make();
    host.broken.add("stop");
    expect(await run(at("stop"))).toContain("stop is broken");
    expect(host.get("demo")).toMatchObject({ phase: "Stopping", isWanted: false, message: "stop is broken" });
    host.broken.clear();
    expect(await run(at("stop"))).toBe("done");
    expect(host.get("demo")).not.toHaveProperty("message");
    expect(await run(at("start"))).toBe("done");
    host.broken.add("stop");
    expect(await run(at("stop"))).toContain("stop is broken");
    host.broken.clear();
    expect(await run(DELETE)).toBe("done");
    expect(host.list()).toEqual([]);
  });

  test("that is moving is left to its move, whoever starts or stops it", async () => {
    const { host, run, make } = await world();
    await make();
    host.save({ ...(host.get("demo") as KeptCluster), phase: "Migrating", isSwitching: true });
    for (const verb of ["start", "stop"]) {
      expect(await run(at(verb))).toContain("is Migrating and cannot be");
      expect(host.get("demo")).toMatchObject({ phase: "Migrating", isSwitching: true });
    }
  });

  test("is made asleep where that is asked for, and is furnished when it is started for the first time", async () => {
    const { host, run, make } = await world();
    expect(await make({ sleep: { fromStart: true } })).toBe("done");
    expect(host.get("demo")).toMatchObject({ phase: "Running", asleep: "cold", isNew: true });
    expect([host.networks.size, host.running.size, host.furnished]).toEqual([1, 0, []]);
    expect(await run(at("stop"))).toBe("done");
    expect(await run(at("start"))).toBe("done");
    expect([host.running.size, host.furnished]).toEqual([1, ["demo"]]);
    expect(host.get("demo")).not.toHaveProperty("isNew");
    expect(await run(DELETE)).toBe("done");
    expect([host.kept.size, host.networks.size]).toEqual([0, 0]);
  });

  test.each(["provision", "start", "furnish"] as const)(
    "a failure of %s is kept with its reason, and retried",
    async (part) => {
      const { host, run, make } = await world();
      host.broken.add(part);
      expect(await make()).toContain(`${part} is broken`);
      expect(host.get("demo")).toMatchObject({ phase: "Failed", message: `${part} is broken` });
      for (const verb of ["stop", "start", "wake"])
        await expect(run(at(verb))).rejects.toThrow(/is Failed and cannot be \w+: try again what failed/);
      host.broken.clear();
      expect(await run(at("retry"))).toBe("done");
      expect(host.get("demo")).toMatchObject({ phase: "Running" });
      expect(host.get("demo")?.message).toBeUndefined();
    },
  );

  test("one that failed can be deleted, and so can one that never came here", async () => {
    const { host, run, make } = await world();
    host.broken.add("start");
    await make();
    expect(await run(DELETE)).toBe("done");
    expect(await run(DELETE)).toBe("done");
    expect(host.kept.size).toBe(0);
  });

  test("ends running or failed, wherever a crash cuts it off", async () => {
    const report = await testSaga<FakeClusterHost>({
      prepare: () => new FakeClusterHost(),
      define: (engine, host) => {
        const phases = new ClusterPhases(host, () => undefined);
        const workers = {
          bring: async () => undefined,
          stop: async () => undefined,
          remove: async () => undefined,
          giveBack: async () => 0,
          keepLeft: async () => 0,
          requireEmpty: () => undefined,
        };
        engine.register(
          clusterOperations({
            host,
            phases,
            workers,
            ensureComponent: async () => undefined,
            etcdVersion: () => "3.6.8",
            fill: async () => undefined,
          }).create,
        );
        const spec = readVirtualClusterSpec({});
        return { type: CREATE_CLUSTER, args: { name: "demo", tenant: "t", spec, version: "1.36.4" } };
      },
      check: (host, outcome) => {
        const phase = host.get("demo")?.phase;
        expect(outcome === "done" ? phase : "any").toBe(outcome === "done" ? "Running" : "any");
      },
    });
    expect(report.runs).toBeGreaterThan(10);
  });
});

describe("what a node is asked", () => {
  test("another tenant's cluster is not there", async () => {
    const { make, run, routes } = await world();
    await make();
    const other = { ...base, tenant: "evil" };
    for (const verb of ["stop", "start", "retry"])
      await expect(run(at(verb), other)).rejects.toThrow("there is no virtual cluster 'demo'");
    await expect(run(DELETE, other)).rejects.toThrow("there is no virtual cluster");
    await expect(run("POST /gpve/nodes/{node}/vclusters", { ...other, spec: {} })).rejects.toThrow("already");
    const kubeconfig = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfig"];
    expect(() => kubeconfig({ ...other, hours: 1 }, ctx)).toThrow("there is no virtual cluster");
  });

  test("two of one name are two here, by their keys, and each tenant's pods are of its own name", async () => {
    const { make, run, host, routes, vnodes } = await world();
    await make();
    const theirs = { vcluster: "0-demo-x", called: "demo", tenant: "lab" };
    const spec = { workerNodes: { count: 1 } };
    expect(await run("POST /gpve/nodes/{node}/vclusters", { ...theirs, spec })).toBe("done");
    expect(host.list().map(({ name, tenant, phase }) => [name, tenant, phase])).toEqual([
      ["demo", "shop", "Running"],
      ["0-demo-x", "lab", "Running"],
    ]);
    const [worker] = vnodes.list("0-demo-x");
    expect(worker?.name).toBe("worker-1");
    vnodes.podsOf.set("0-demo-x/worker-1", [{ namespace: "default", name: "p", uid: "u" }]);
    const pods = routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/pods"];
    expect(await pods({ node: "n1", vcluster: "0-demo-x", tenant: "lab" }, ctx)).toMatchObject([
      { vcluster: "demo", tenant: "lab", vnode: "worker-1", name: "p" },
    ]);
    // A key is worth nothing without its tenant.
    await expect(run(at("stop"), { vcluster: "0-demo-x" })).rejects.toThrow("there is no virtual cluster");
    expect(await run(DELETE, { vcluster: "0-demo-x", tenant: "lab" })).toBe("done");
    expect(host.list().map(({ name }) => name)).toEqual(["demo"]);
  });

  test("a kubeconfig names who asks, while the cluster runs", async () => {
    const { host, make, run, routes, bindings, clock, awoken } = await world();
    await make();
    const list = routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs"];
    await expect(list(base, ctx)).rejects.toThrow("demo does not tell its kubeconfigs: it answered 503");
    const ends = new Date(clock.now() + 1_000).toISOString();
    const annotations = { "gpve.io/user": "joe@pve", "gpve.io/ends-at": ends };
    bindings.push({ metadata: { name: "gpve:kubeconfig:0123456789abcdef", annotations } });
    const joes = { id: "0123456789abcdef", user: "joe@pve", expiresAt: clock.now() + 1_000 };
    expect(await list(base, ctx)).toEqual([joes]);
    const kubeconfig = routes["POST /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfig"];
    expect(await kubeconfig({ ...base, hours: 1 }, ctx)).toMatchObject({ kubeconfig: "joe@pve@demo" });
    const revoke = routes["DELETE /gpve/nodes/{node}/vclusters/{vcluster}/kubeconfigs/{id}"];
    expect(await revoke({ ...base, id: "0123456789abcdef" }, ctx)).toBeNull();
    // While workers come or go its API answers: nobody waits for them, nor for what would wake it.
    const kept = host.get("demo");
    if (kept !== undefined) host.save({ ...kept, phase: "Scaling" });
    expect(await kubeconfig({ ...base, hours: 1 }, ctx)).toMatchObject({ kubeconfig: "joe@pve@demo" });
    expect(await list(base, ctx)).toEqual([joes]);
    expect(awoken).toEqual(["demo", "demo", "demo", "demo"]);
    if (kept !== undefined) host.save(kept);
    const log = routes["GET /gpve/nodes/{node}/vclusters/{vcluster}/log"];
    expect(await log(base, ctx)).toEqual({ lines: ["kube-apiserver: hello"] });
    await run(at("stop"));
    expect(() => kubeconfig({ ...base, hours: 1 }, ctx)).toThrow("is Stopped: start it");
  });

  test("the newest version that is here is taken, else one of the catalogue; others are refused with both", async () => {
    const { make, brought } = await world(["1.34.4"]);
    await make();
    expect(brought).toEqual(["kubernetes 1.34.4"]);
    const other = await world(["1.35.6"]);
    await other.make({ kubernetesVersion: "1.36" });
    expect(other.brought).toEqual(["kubernetes 1.36.4"]);
    await expect(other.make({ kubernetesVersion: "1.30" })).rejects.toThrow(
      /Kubernetes 1.30 cannot be had: this node has 1.35.6, the catalogue 1.36.4, 1.35.6.*component import/,
    );
  });

  test("of a minor whose newest patch nobody has is the next older one; a patch that is named stays", async () => {
    const { make, brought, host } = await world([]);
    await make({ kubernetesVersion: "1.35" });
    expect([brought[0], host.list()[0]?.version]).toEqual(["kubernetes 1.35.4", "1.35.4"]);
    const named = await world([]);
    await named.make({ kubernetesVersion: "1.35.6" });
    expect(named.brought[0]).toBe("kubernetes 1.35.6");
  });
});

describe("what shall run", () => {
  const log = { warn: () => undefined, error: () => undefined } as unknown as Logger;
  const running: KeptCluster = {
    name: "demo",
    tenant: "t",
    spec: readVirtualClusterSpec({}),
    version: "1.36.4",
    network: 1,
    phase: "Running",
    isWanted: true,
  };

  test("is started again when it ends, later each time", async () => {
    const [host, clock] = [new FakeClusterHost(), new FakeClock()];
    host.save(running);
    const keeper = new KeepClusters({ host, clock, log, changed: () => undefined });
    host.end("demo", "kube-apiserver");
    await clock.advance(1_000);
    expect(host.started).toEqual(["demo.kube-apiserver"]);
    host.end("demo", "kube-apiserver");
    await clock.advance(1_900);
    expect(host.started).toHaveLength(1);
    await clock.advance(200);
    expect(host.started).toHaveLength(2);
    keeper.close();
  });

  test("is tried again when it cannot be started, and left alone when it is not wanted any more", async () => {
    const [host, clock] = [new FakeClusterHost(), new FakeClock()];
    host.save(running);
    const keeper = new KeepClusters({ host, clock, log, changed: () => undefined });
    host.broken.add("part");
    host.end("demo", "kube-scheduler");
    await clock.advance(1_000);
    host.broken.clear();
    await clock.advance(2_500);
    expect(host.started).toEqual(["demo.kube-scheduler"]);
    host.save({ ...running, phase: "Stopping", isWanted: false });
    host.end("demo", "kube-scheduler");
    await clock.advance(60_000);
    expect(host.started).toHaveLength(1);
    keeper.close();
  });

  test("is started when the agent comes back and finds it down", async () => {
    const [host, clock] = [new FakeClusterHost(), new FakeClock()];
    host.save(running);
    host.save({ ...running, name: "off", phase: "Stopped", isWanted: false });
    const keeper = new KeepClusters({ host, clock, log, changed: () => undefined });
    await keeper.resume();
    await expect.poll(() => [...host.running]).toEqual(["demo"]);
    await keeper.resume();
    keeper.close();
  });
});
