import { expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import { importCluster } from "./import-cluster.ts";
import { writeImported } from "./write-imported.ts";

const options = { provider: "pve-api", endpoint: undefined, recipients: [], source: "theirs" } as const;

function imported(text: string) {
  const { text: file } = writeImported(importCluster(text, "terraform.tfvars"), options);
  const cluster = parseCluster(file, "cluster.yaml");
  return { cluster, machines: machinesOf(cluster) };
}

test("machines of both roles in one map are told by their names, where nothing else tells them", () => {
  const { cluster, machines } = imported(`talos = { cluster_name = "k8s" }
hosts = {
  a = { name = "k8s-control-01", ip_addr = "10.0.2.240", cidr = "/23", gateway = "10.0.3.1", cores = 6, memory = 8096 }
  b = { name = "k8s-cp2", ip_addr = "10.0.2.241", cidr = "/23", gateway = "10.0.3.1", cores = 6, memory = 8096 }
  c = { name = "k8s-control-03", ip_addr = "10.0.2.242", cidr = "/23", gateway = "10.0.3.1", cores = 6, memory = 8096 }
  d = { name = "k8s-worker-01", ip_addr = "10.0.2.251", cidr = "/23", gateway = "10.0.3.1", cores = 4, memory = 4096 }
}`);
  expect(cluster).toMatchObject({
    metadata: { name: "k8s" },
    network: { nodeCIDR: "10.0.2.0/23", gateway: "10.0.3.1" },
  });
  expect(machines.map(({ hostname, role, addresses }) => [hostname, role, addresses[0]])).toEqual([
    ["k8s-control-01", "controlplane", "10.0.2.240"],
    ["k8s-cp2", "controlplane", "10.0.2.241"],
    ["k8s-control-03", "controlplane", "10.0.2.242"],
    ["k8s-worker-01", "worker", "10.0.2.251"],
  ]);
});

test("memory that is too little in MiB was meant in GiB", () => {
  const listed = imported(`cluster_name = "x"
controlplanes = { "10.1.1.11" = { hostname = "cp1", memory = 8, cores = 2, pve_id = 101 } }`);
  expect(listed.machines[0]).toMatchObject({ size: { memoryMiB: 8192 } });
  const counted = imported(`cluster_name = "x"
cp_count = 1
cp_memory = 4
worker_count = 1
worker_memory = 2048`);
  expect(counted.machines.map(({ size }) => size.memoryMiB)).toEqual([4096, 2048]);
});
