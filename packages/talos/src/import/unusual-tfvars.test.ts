import { expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import { importCluster } from "./import-cluster.ts";
import { writeImported } from "./write-imported.ts";

const options = { provider: "pve-api", endpoint: undefined, recipients: [], source: "theirs" } as const;

function imported(text: string) {
  const { text: file } = writeImported(importCluster(text, "terraform.tfvars"), options);
  const cluster = parseCluster(file, "cluster.yaml");
  return { cluster, machines: machinesOf(cluster), file };
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

test("lists of addresses by role, and sizes that hold for all", () => {
  const { cluster, machines } = imported(`cluster_name = "prod"
control_plane_ips = ["10.1.1.11/24", "10.1.1.12/24", "10.1.1.13/24"]
worker_ips = ["10.1.1.21"]
cluster_vip = "10.1.1.10"
datastore = "local-lvm"
control_plane_cpu = 2
worker_cpu = 4
worker_memory = 8
disk_size = "50G"`);
  expect(cluster).toMatchObject({
    endpoint: { vip: "10.1.1.10" },
    providers: [{ storage: { image: "local", vm: "local-lvm", cloudinit: "local-lvm" } }],
  });
  expect(machines.map(({ role, addresses, size }) => [role, addresses[0], size.cores, size.diskGiB])).toEqual(
    [
      ["controlplane", "10.1.1.11", 2, 50],
      ["controlplane", "10.1.1.12", 2, 50],
      ["controlplane", "10.1.1.13", 2, 50],
      ["worker", "10.1.1.21", 4, 50],
    ],
  );
  expect(machines[3]?.size.memoryMiB).toBe(8192);
});

test("names with their nodes, and nothing of where the API is: a VIP before the machines", () => {
  const { cluster, machines } = imported(`talos_cluster_name = "home"
control_nodes = { "talos-control-0" = "pve1", "talos-control-1" = "pve2", "talos-control-2" = "pve3" }
worker_nodes = { "talos-worker-0" = "pve1" }
proxmox_control_vm_cores = 4`);
  expect(cluster).toMatchObject({ metadata: { name: "home" }, endpoint: { vip: "192.168.1.9" } });
  expect(machines.map(({ hostname, role, host }) => [hostname, role, host])).toEqual([
    ["talos-control-0", "controlplane", "pve1"],
    ["talos-control-1", "controlplane", "pve2"],
    ["talos-control-2", "controlplane", "pve3"],
    ["talos-worker-0", "worker", "pve1"],
  ]);
  expect(machines[0]?.size.cores).toBe(4);
});

test("sizes are read with Proxmox' units too, and a mask beside the gateway makes the network", () => {
  const { cluster, machines } =
    imported(`cluster = { name = "x", gateway = "10.2.0.1", subnet_mask = "16", talos_machine_config_version = "v1.12.6" }
nodes = [{ name = "cp-1", role = "controlplane", ip = "10.2.0.11", cpu = 2, memory = "6G", disk = "64G" }]`);
  expect(cluster).toMatchObject({ versions: { talos: "v1.12.6" }, network: { nodeCIDR: "10.2.0.0/16" } });
  expect(machines[0]?.size).toMatchObject({ memoryMiB: 6144, diskGiB: 64 });
});

test("a switch before the VIP is none, and one that is off leaves the VIP out", () => {
  const groups = (isOn: boolean) => `cluster_config = {
  cluster_name = "prod", enable_vip = ${isOn}, vip_ip = "192.168.1.50", endpoint = "https://192.168.1.11:6443"
}
network_config = { cidr = "192.168.1.0/24", gateway = "192.168.1.1" }
nodes = { cp-1 = { ip = "192.168.1.11", cpu = 2, machine_type = "controlplane" } }`;
  const on = imported(groups(true));
  expect(on.cluster).toMatchObject({ metadata: { name: "prod" }, endpoint: { vip: "192.168.1.50" } });
  expect(on.file).not.toContain("Not taken over");
  expect(imported(groups(false)).cluster.endpoint.vip).toBeUndefined();
});

test("a name that the API has beside its VIP stays its own", () => {
  const { cluster } = imported(`cluster_name = "x"
cluster_endpoint = "https://k8s.example.org:6443"
cluster_vip = "192.168.1.50"
gateway = "192.168.1.1"
control_plane_count = 3`);
  expect(cluster.endpoint).toMatchObject({ vip: "192.168.1.50", dns: "k8s.example.org", extraSANs: [] });
});

test("tags of a role are its own", () => {
  const { cluster, file } = imported(`cluster_name = "x"
control_plane_count = 1
worker_count = 1
tagging_config = { common_tags = ["k8s"], controlplane_tags = ["etcd"], worker_tags = ["Apps"] }`);
  expect(cluster).toMatchObject({ tags: ["k8s"], pools: [{ tags: ["apps"] }] });
  expect(file).toContain("# Not taken over: tagging_config_controlplane_tags.\n");
});

test("networks of pods and services are not the machines'", () => {
  const { cluster } = imported(`cluster_name = "x"
pod_cidr = "10.244.0.0/16"
network_config = { service_cidr = "10.96.0.0/12", cidr = "10.3.0.0/24" }
control_plane_count = 1`);
  expect(cluster.network.nodeCIDR).toBe("10.3.0.0/24");
});

test("first numbers of hosts in a network that is named", () => {
  const { cluster, machines, file } = imported(`proxmox_pve_node_name = "hydra"
cluster_name = "example"
cluster_vip = "10.17.3.9"
cluster_endpoint = "https://10.17.3.9:6443"
cluster_node_network_gateway = "10.17.3.1"
cluster_node_network = "10.17.3.0/24"
cluster_node_network_first_controller_hostnum = 80
cluster_node_network_first_worker_hostnum = 90
controller_count = 1
worker_count = 1`);
  expect(cluster).toMatchObject({
    providers: [{ nodes: ["hydra"] }],
    network: { nodeCIDR: "10.17.3.0/24", gateway: "10.17.3.1" },
    endpoint: { vip: "10.17.3.9" },
  });
  expect(machines.map(({ addresses }) => addresses)).toEqual([["10.17.3.80"], ["10.17.3.90"]]);
  expect(file).not.toContain("Not taken over");
});

test("a control plane is told by what people call it, its group, or that it stands alone", () => {
  const roles = (text: string) =>
    imported(text).machines.map(({ hostname, role, vmid }) => `${hostname} ${role} ${vmid}`);
  expect(
    roles(`nodes = {
  talos-ctrl-01 = { ip = "10.1.1.11", vm_id = 801, cores = 4 }
  talos-worker-01 = { ip = "10.1.1.21", vm_id = 811, cores = 4 }
}`),
  ).toEqual(["talos-ctrl-01 controlplane 801", "talos-worker-01 worker 811"]);
  const single = `control_plane = { name = "k8s", vmid = 801, ip = "10.1.1.11", cores = 4, memory = 4096 }
workers = [{ name = "k8s-1", vmid = 811, ip = "10.1.1.21", cores = 4, memory = 4096 }]
template = { vmid = 9000, ip = "10.1.1.99", cores = 1 }`;
  const both = ["k8s controlplane 801", "k8s-1 worker 811"];
  expect(roles(single)).toEqual(both);
  expect(roles(`cluster = {\n${single}\n}`)).toEqual(both);
  // A size with a place is none where machines are counted.
  const counted = `cluster_name = "x"
control_plane_count = 3
control_plane = { target_node = "pve", cores = 4, memory = 4096 }`;
  expect(imported(counted).machines).toHaveLength(3);
});

test("what machines have and nobody read is named, once for all of a group", () => {
  const { cluster, machines, file } = imported(`cluster_name = "x"
nodes = {
  "ctrl-01" = {
    ip = "10.1.1.11", gateway = "10.1.1.1", cpu = 2, machine_type = "controlplane", igpu = true, vlan_id = 0, tags = ["a"]
    disks = { longhorn = { size = "180G" } }
  }
  "work-01" = { ip = "10.1.1.21", gateway = "10.1.1.1", cpu = 2, machine_type = "worker", igpu = true, datastore_id = "fast" }
}
pool = [{ ip = "10.1.1.31", cpu = 2, role = "worker", rack = "b" }]`);
  expect(machines).toHaveLength(3);
  expect(cluster).toMatchObject({ tags: [], providers: [{ storage: { vm: "fast" } }] });
  expect(file).toContain(
    "# Not taken over: nodes_*_igpu, nodes_*_tags, nodes_*_disks_longhorn_size, pool_*_rack.\n",
  );
});
