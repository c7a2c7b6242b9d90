import { describe, expect, test } from "vitest";
import { testCluster } from "../testing/test-cluster.ts";
import { machinesOf } from "./machines.ts";
import { addressAt, canonicalAddress } from "./networks.ts";

const network = { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1" };

describe("the machines of a file", () => {
  const machines = machinesOf(testCluster());

  test("have names, VMIDs and addresses by role and number", () => {
    expect(machines.map(({ name, vmid, addresses }) => [name, vmid, ...addresses])).toEqual([
      ["prod-cp-1", 2000, "10.0.0.10"],
      ["prod-cp-2", 2001, "10.0.0.11"],
      ["prod-cp-3", 2002, "10.0.0.12"],
      ["prod-worker-1", 3000, "10.0.0.20"],
      ["prod-worker-2", 3001, "10.0.0.21"],
    ]);
  });

  test("of one pool are apart, and memory is balanced", () => {
    expect(machines.map(({ host }) => host)).toEqual(["pve1", "pve2", "pve3", "pve1", "pve2"]);
    const one = machinesOf(
      testCluster({ nodes: { "prod-cp-1": { machine: { memoryMiB: 65_536 } } }, pools: [{ name: "w" }] }),
    );
    expect(one.at(-1)?.host).toBe("pve2");
  });

  test("are the same ones every time", () => {
    expect(machinesOf(testCluster())).toEqual(machines);
    expect(new Set(machines.map(({ mac }) => mac)).size).toBe(machines.length);
  });
});

test("reserved addresses, the gateway, the VIP and addresses of others are left out", () => {
  const machines = machinesOf(
    testCluster({
      network: { ...network, ipam: { controlPlaneOffset: 1, workerOffset: 9, reserve: ["10.0.0.2"] } },
      nodes: { "prod-worker-2": { ip: "10.0.0.4" } },
    }),
  );
  expect(machines.map(({ addresses }) => addresses[0])).toEqual([
    "10.0.0.3",
    "10.0.0.5",
    "10.0.0.6",
    "10.0.0.10",
    "10.0.0.4",
  ]);
});

test("a range is reserved with both its ends", () => {
  const ipam = {
    controlPlaneOffset: 10,
    workerOffset: 20,
    reserve: ["10.0.0.9-10.0.0.11", "10.0.0.21-10.0.0.30"],
  };
  const machines = machinesOf(testCluster({ network: { ...network, ipam } }));
  expect(machines.map(({ addresses }) => addresses[0])).toEqual([
    "10.0.0.12",
    "10.0.0.13",
    "10.0.0.14",
    "10.0.0.20",
    "10.0.0.31",
  ]);
});

test("with two families each machine has an address of both", () => {
  const [first] = machinesOf(testCluster({ network: { ...network, nodeCIDR6: "fd00:1::/64" } }));
  expect(first?.addresses).toEqual(["10.0.0.10", "fd00:1::a"]);
});

test("overrides of a machine win, the rest stays its pool's", () => {
  const machines = machinesOf(
    testCluster({
      tags: ["k8s"],
      pools: [
        {
          name: "worker",
          count: 2,
          labels: { a: "b" },
          tags: ["gpu"],
          arch: "arm64",
          patches: [{ file: "pool.yaml" }],
        },
      ],
      nodes: {
        "prod-worker-2": {
          host: "pve3",
          vmid: 777,
          mac: "bc:24:11:00:00:01",
          machine: { memoryMiB: 32_768 },
          patches: [{ file: "own.yaml" }],
        },
      },
    }),
  );
  expect(machines.at(-1)).toMatchObject({
    host: "pve3",
    vmid: 777,
    mac: "BC:24:11:00:00:01",
    arch: "arm64",
    size: { memoryMiB: 32_768, cores: 4 },
    labels: { a: "b" },
    tags: ["talos-prod", "k8s", "gpu"],
    patchFiles: ["pool.yaml", "own.yaml"],
  });
});

test("a storage pool is found by its label, and its image has the tools of clients", () => {
  const pool = {
    name: "store",
    role: "storage",
    labels: { tier: "slow" },
    extensions: ["siderolabs/nfs-utils", "siderolabs/zfs"],
    machine: { extraDisks: [{ gib: 200, storage: "local-lvm" }] },
  };
  const machines = machinesOf(testCluster({ pools: [{ name: "worker", count: 1 }, pool] }));
  expect(machines.at(-1)).toMatchObject({
    name: "prod-store-1",
    role: "worker",
    labels: { "gpve.io/role": "storage", tier: "slow" },
    extensions: [
      "siderolabs/iscsi-tools",
      "siderolabs/nfs-utils",
      "siderolabs/util-linux-tools",
      "siderolabs/zfs",
    ],
    size: { extraDisks: [{ gib: 200, storage: "local-lvm" }] },
  });
  expect(machines.at(-2)).toMatchObject({ labels: {}, extensions: [] });
});

test("what an earlier run decided stays when the file changes around it", () => {
  const pinned = Object.fromEntries(
    machinesOf(testCluster()).map(({ name, provider, host, vmid, addresses }) => [
      name,
      { provider, host, vmid, addresses },
    ]),
  );
  const changed = testCluster({
    pools: [
      { name: "first", count: 2 },
      { name: "worker", count: 3 },
    ],
    network: { ...network, ipam: { controlPlaneOffset: 50, workerOffset: 60 } },
  });
  const machines = machinesOf(changed, pinned);
  const of = (name: string) => machines.find((machine) => machine.name === name);
  for (const [name, decided] of Object.entries(pinned)) expect(of(name)).toMatchObject(decided);
  expect(of("prod-first-1")).toMatchObject({ vmid: 3002, addresses: ["10.0.0.60"] });
  expect(new Set(machines.map(({ vmid }) => vmid)).size).toBe(machines.length);
});

test("addresses are counted in both families and end with the network", () => {
  expect(addressAt("10.0.0.7/30", 2)).toBe("10.0.0.6");
  expect(addressAt("10.0.0.4/30", 3)).toBeUndefined();
  expect(addressAt("10.0.0.0/24", 0)).toBeUndefined();
  expect(addressAt("10.0.255.0/16", 65_000)).toBe("10.0.253.232");
  expect(addressAt("fd00::/120", 255)).toBe("fd00::ff");
  expect(addressAt("fd00::/120", 256)).toBeUndefined();
  expect(canonicalAddress("FD00:0:0::0:1")).toBe("fd00::1");
});

test("a pool of thousands is placed without looking at each machine for every other", () => {
  const cluster = testCluster({
    network: {
      nodeCIDR: "172.16.0.0/16",
      gateway: "172.16.0.1",
      podCIDRs: ["10.64.0.0/11"],
      ipam: { reserve: ["172.16.0.30"] },
    },
    endpoint: { vip: "172.16.0.9" },
    vmids: { worker: "100000-109999" },
    pools: [{ name: "worker", count: 5000 }],
  });
  const before = process.cpuUsage();
  const machines = machinesOf(cluster);
  const { user } = process.cpuUsage(before);
  expect(machines.at(-1)).toMatchObject({ vmid: 104_999, addresses: ["172.16.19.156"] });
  expect(new Set(machines.flatMap(({ addresses }) => addresses)).size).toBe(5003);
  // It took half a minute when every machine began to look at the beginning.
  expect(user).toBeLessThan(5_000_000);
});
