import { describe, expect, test } from "vitest";
import { addressAt, cidrsOverlap, readCidr } from "./cidr.ts";
import { readVirtualClusterSpec, shownVirtualClusterSpec } from "./vcluster-spec.ts";
import { vclusterCollection } from "./vcluster-record.ts";

describe("the spec of a virtual cluster", () => {
  test("has a default for everything", () => {
    expect(readVirtualClusterSpec({})).toEqual({
      kubernetesVersion: "",
      tier: "Starter",
      backingStore: "sqlite",
      replicas: 1,
      workers: 0,
      workerSize: { cpus: 2, memoryBytes: 2 ** 31 },
      isolationLevel: "L1",
      podCidr: "10.244.0.0/16",
      serviceCidr: "10.96.0.0/16",
      dnsDomain: "cluster.local",
      sleep: { mode: "cold", afterIdleSeconds: 900 },
      node: "",
    });
  });

  test("takes words in any letter case, and shows them in one", () => {
    const spec = readVirtualClusterSpec({
      kubernetesVersion: "v1.36",
      controlPlane: { tier: "standard", backingStore: "SQLite", replicas: 1 },
      workerNodes: { mode: "Private", count: 0 },
      isolationLevel: "L1_Namespace",
      node: "n1",
    });
    expect(shownVirtualClusterSpec(spec)).toEqual({
      kubernetesVersion: "1.36",
      controlPlane: {
        tier: "Standard",
        backingStore: "sqlite",
        replicas: 1,
        resources: { cpu: "4", memory: "4Gi" },
      },
      workerNodes: { mode: "private", count: 0, resources: { cpu: "2", memory: "2Gi" } },
      isolationLevel: "L1",
      networking: {
        podCIDR: "10.244.0.0/16",
        serviceCIDR: "10.96.0.0/16",
        dnsDomain: "cluster.local",
        cni: "bridge",
        exposure: "auto",
      },
      sleep: { mode: "warm", afterIdleSeconds: 900 },
      node: "n1",
    });
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
  });

  test("has three replicas in tier Enterprise, of an etcd of their own", () => {
    const spec = { controlPlane: { tier: "Enterprise" }, workerNodes: { count: 4 } };
    expect(readVirtualClusterSpec(spec)).toMatchObject({
      backingStore: "etcd",
      replicas: 3,
      workers: 4,
      sleep: { mode: "none" },
    });
  });

  test("says what volumes may have and whether pods go out, only where that was asked for", () => {
    const spec = readVirtualClusterSpec({ quota: { storage: "1Gi" }, networking: { egress: "NAT" } });
    expect(spec).toMatchObject({ volumeBytes: 2 ** 30, egress: "nat" });
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
  });

  test("is read again as it is shown, however large or small what it says", () => {
    for (const quota of [
      { storage: "1Pi" },
      { storage: "2048Ti" },
      { cpu: "0.00001" },
      { cpu: "12345.6789" },
    ]) {
      const spec = readVirtualClusterSpec({ quota });
      expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
    }
    for (const quota of [{ storage: "9".repeat(30) }, { storage: "9000Pi" }, { cpu: "9".repeat(30) }])
      expect(() => readVirtualClusterSpec({ quota })).toThrow("spec.quota");
  });

  test("bounds what its workers have together, pools too", () => {
    const quota = { cpu: "8", memory: "12Gi", storage: "1Gi" };
    const pools = [{ name: "build", count: 1, resources: { cpu: 4, memory: "8Gi" } }];
    const read = (count: number) => readVirtualClusterSpec({ quota, workerNodes: { count, pools } });
    const spec = read(2);
    expect(spec).toMatchObject({ workerQuota: { cpus: 8, memoryBytes: 12 * 2 ** 30 }, volumeBytes: 2 ** 30 });
    expect(shownVirtualClusterSpec(spec)).toMatchObject({ quota });
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
    expect(() => read(3)).toThrow("spec.quota.cpu: its workers would have 10 CPUs, and its quota is 8");
    const memory = { quota: { memory: "1Gi" }, workerNodes: { count: 1 } };
    expect(() => readVirtualClusterSpec(memory)).toThrow("its workers would have 2Gi, and its quota is 1Gi");
    expect(() => readVirtualClusterSpec({ quota: { cpu: "lots" } })).toThrow("quota.cpu");
  });

  test("has the network that gpve makes, and says where kubeconfigs lead", () => {
    const spec = readVirtualClusterSpec({ networking: { cni: "Bridge", exposure: "Server" } });
    expect(spec.exposure).toBe("server");
    expect(shownVirtualClusterSpec(spec)).toMatchObject({
      networking: { cni: "bridge", exposure: "server" },
    });
    expect(readVirtualClusterSpec(shownVirtualClusterSpec(spec))).toEqual(spec);
    expect(() => readVirtualClusterSpec({ networking: { cni: "calico" } })).toThrow("must be bridge");
    expect(() => readVirtualClusterSpec({ networking: { exposure: "world" } })).toThrow(
      "must be one of auto, node, server",
    );
  });

  test("takes a controller for Ingresses, and shows it", () => {
    const spec = readVirtualClusterSpec({ networking: { ingress: "Traefik" } });
    expect(spec.ingress).toBe("traefik");
    expect(shownVirtualClusterSpec(spec)).toMatchObject({ networking: { ingress: "traefik" } });
    expect(readVirtualClusterSpec({ networking: { ingress: "none" } })).not.toHaveProperty("ingress");
  });

  test("takes pods that are machines, as they are called in many places", () => {
    for (const isolationLevel of ["L2", "l2", "L2_Kata"])
      expect(readVirtualClusterSpec({ isolationLevel, workerNodes: { count: 2 } }).isolationLevel).toBe("L2");
  });

  test("takes workers that are machines, pools of them included", () => {
    const spec = readVirtualClusterSpec({
      isolationLevel: "L3",
      workerNodes: { count: 2, pools: [{ name: "big", resources: { memory: "8Gi" } }] },
      quota: { storage: 0 },
    });
    expect(spec).toMatchObject({ isolationLevel: "L3", workers: 2 });
  });

  test.each([
    [{ controlPlane: { tier: "gold" } }, "spec.controlPlane.tier: must be one of Starter"],
    [{ controlPlane: { replicas: 2 } }, "has 1 replica or 3"],
    [{ controlPlane: { replicas: 3 } }, "say etcd, or ask for 1 replica"],
    [
      { controlPlane: { tier: "Enterprise" }, workerNodes: { pools: [{ name: "big", count: 1 }] } },
      "ask for 1 replica, or leave out the pools",
    ],
    [{ controlPlane: { tier: "Enterprise" }, sleep: { mode: "cold" } }, "does not sleep"],
    [{ quota: { storage: "much" } }, "spec.quota.storage: must be bytes"],
    [{ networking: { ingress: "nginx" } }, "spec.networking.ingress: must be one of none, traefik"],
    [
      { isolationLevel: "L3", networking: { ingress: "traefik" } },
      "level L3 has no controller for Ingresses",
    ],
    [{ networking: { egress: "open" } }, "spec.networking.egress: must be one of none, nat"],
    [{ isolationLevel: "L2", scheduling: { spread: true } }, "level L2 on several nodes"],
    [
      { isolationLevel: "L2", workerNodes: { privileged: true } },
      "spec.workerNodes.privileged: pods of level L2",
    ],
    [{ isolationLevel: "L3", volumes: { storage: "fast" } }, "are on the disks of its machines"],
    [{ isolationLevel: "l3", scheduling: { spread: true } }, "level L3 on several nodes"],
    [
      { isolationLevel: "L3", workerNodes: { resources: { memory: "512Mi" } } },
      "spec.workerNodes.resources.memory: a worker of level L3 is a machine with a kernel of its own: at least 768Mi",
    ],
    [
      { isolationLevel: "L3", workerNodes: { pools: [{ name: "a", resources: { memory: "512Mi" } }] } },
      "spec.workerNodes.pools[0].resources.memory",
    ],
    [{ workerNodes: { mode: "virtual-kubelet" } }, "behave unlike Kubernetes' own"],
    [{ workerNodes: { mode: "x" } }, "must be private"],
    [{ workerNodes: { count: -1 } }, "whole number"],
    [{ kubernetesVersion: "newest" }, "is no version"],
    [{ networking: { podCIDR: "10.0.0.1/8" } }, "is no IPv4 network"],
    [{ networking: { podCIDR: "10.96.0.0/12" } }, "overlaps the pods'"],
    [{ networking: { podCIDR: "10.1.0.0/24" } }, "less than four workers"],
    [{ networking: { serviceCIDR: "10.0.0.0/8" } }, "between a /12 and a /24"],
    [{ networking: { serviceCIDR: "x" } }, "is no IPv4 network"],
    [{ networking: { dnsDomain: "A b" } }, "is no domain"],
  ])("refuses %j with the reason", (spec, why) => {
    expect(() => readVirtualClusterSpec(spec)).toThrow(why);
  });
});

describe("networks", () => {
  test("are read, compared and counted through", () => {
    const [a, b] = [readCidr("10.96.0.0/16"), readCidr("10.96.128.0/17")];
    if (a === undefined || b === undefined) throw new Error("not read");
    expect(cidrsOverlap(a, b)).toBe(true);
    expect(addressAt(a, 10)).toBe("10.96.0.10");
    expect(readCidr("300.0.0.0/8") ?? readCidr("1.2.3.4/33") ?? readCidr("1.2.3.4")).toBeUndefined();
  });
});

test("a record of the future is not taken for one of today", () => {
  expect(() => vclusterCollection.decode({ name: "x" })).toThrow("shape this version does not know");
  const record = { name: "x", tenant: "t", node: "n", spec: readVirtualClusterSpec({}), madeBy: "r" };
  expect(vclusterCollection.decode(record)).toEqual(record);
});
