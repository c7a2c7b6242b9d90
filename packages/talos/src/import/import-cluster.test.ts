import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import { talconfig } from "../render/talconfig.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { importCluster } from "./import-cluster.ts";
import { parseTfvars } from "./read-tfvars.ts";
import { writeImported } from "./write-imported.ts";

const options = { provider: "pve-api", endpoint: undefined, recipients: [], source: "theirs" } as const;

function imported(text: string, source: string) {
  const read = importCluster(text, source);
  const { text: file, assumed } = writeImported(read, options);
  const cluster = parseCluster(file, "cluster.yaml");
  return { cluster, machines: machinesOf(cluster), file, assumed, patchFiles: read.patchFiles };
}

describe("talhelper", () => {
  test("a VIP and its name come back as they were", () => {
    const endpoint = { vip: "10.0.0.9", dns: "k8s.example.org", extraSANs: ["other.example.org"] };
    const cluster = testCluster({ endpoint });
    const back = imported(talconfig(cluster, machinesOf(cluster), new Map()), "talconfig.yaml");
    expect(back.cluster.endpoint).toEqual({ ...cluster.endpoint, ...endpoint });
  });

  test("what we rendered comes back as the same machines", () => {
    const cluster = testCluster({
      versions: { talos: "v1.13.9", kubernetes: "v1.35.0" },
      network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", dns: ["10.0.0.2"], mtu: 9000 },
      endpoint: { vip: "10.0.0.9", extraSANs: ["k8s.example.org"] },
      controlPlane: { patches: [{ file: "cp.yaml" }] },
      nodes: { "prod-db-1": { vmid: 4711 } },
      pools: [
        { name: "worker", count: 2, labels: { tier: "web" } },
        { name: "db", count: 1 },
      ],
    });
    const machines = machinesOf(cluster);
    const back = imported(
      talconfig(cluster, machines, new Map([["cp.yaml", "machine: {}\n"]])),
      "talconfig.yaml",
    );
    const facts = (list: typeof machines) =>
      list.map(({ hostname, role, vmid, addresses, mac, labels }) => ({
        hostname,
        role,
        vmid,
        addresses,
        mac,
        labels,
      }));
    expect(facts(back.machines)).toEqual(facts(machines));
    expect(back.cluster).toMatchObject({
      versions: { talos: "v1.13.9", kubernetes: "v1.35.0" },
      network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", dns: ["10.0.0.2"], mtu: 9000 },
      endpoint: { vip: "10.0.0.9", extraSANs: ["k8s.example.org"] },
      // The machines' API for Talos' controller, ours, and without kube-proxy, as Cilium has it.
      controlPlane: {
        count: 3,
        patches: [1, 2, 3].map((at) => ({ file: `patches/control-plane-${at}.yaml` })),
      },
      addons: { cni: { type: "none" } },
    });
    expect(back.file).not.toContain("not taken over");
  });

  test("patches in the file become files, keys without a counterpart are named", () => {
    const { cluster, patchFiles, file } = imported(
      `clusterName: Home Lab
talosVersion: v1.12.3
endpoint: https://k8s.example.org:443
cniConfig: { name: flannel }
allowSchedulingOnMasters: true
imageFactory: { protocol: http }
patches:
  - |-
    machine: { sysctls: { a: b } }
  - "@./patches/all.yaml"
nodes:
  - hostname: talos1
    ipAddress: 192.168.7.187
    controlPlane: true
    installDisk: /dev/sda
    machineSpec: { secureboot: true }
`,
      "talconfig.yaml",
    );
    expect([...patchFiles]).toEqual([["patches/all-1.yaml", "machine: { sysctls: { a: b } }"]]);
    expect(cluster).toMatchObject({
      metadata: { name: "home-lab" },
      endpoint: { dns: "k8s.example.org", port: 443 },
      controlPlane: { count: 1, schedulable: true },
      talos: { patches: [{ file: "patches/all-1.yaml" }, { file: "./patches/all.yaml" }] },
      nodes: { "home-lab-cp-1": { hostname: "talos1", ip: "192.168.7.187" } },
    });
    expect(file).toContain("# imageFactory: not taken over: protocol; a patch can say it.");
    expect(file).toContain("# talos1: not taken over: machineSpec");
  });
});

describe("terraform.tfvars", () => {
  const two = { cluster_name: "home", talos_version: "v1.13.9", gateway: "10.1.1.1", cidr: 24 };
  const cp = {
    ip: "10.1.1.11/24",
    cpu: 2,
    ram_dedicated: 4096,
    machine_type: "controlplane",
    host_node: "pve",
  };

  test("as JSON, and with names that have dots", () => {
    const json = JSON.stringify({ ...two, nodes: { "cp.one": cp } });
    const { machines } = imported(json, "terraform.tfvars.json");
    expect(machines).toMatchObject([{ hostname: "cp", addresses: ["10.1.1.11"], host: "pve" }]);
  });

  test("with the line ends of Windows", () => {
    const text = `cluster_name = "home"
note = <<-EOT
  hello
  EOT
none = <<EOT
EOT
endpoint = "fd00::9"
nodes = { cp = { ip = "fd00::11", cpu = 2, machine_type = "controlplane" } }
`;
    const { cluster, machines } = imported(text.replaceAll("\n", "\r\n"), "w.tfvars");
    expect(machines[0]?.addresses).toEqual(["fd00::11"]);
    expect(cluster).toMatchObject({ network: { nodeCIDR: "fd00::/64" }, endpoint: { vip: "fd00::9" } });
  });

  test("nested without end is refused, as anything else that is no file of values", () => {
    expect(() => importCluster(`x = ${"[".repeat(200_000)}`, "deep.tfvars")).toThrow(
      "deep.tfvars is no file of Terraform values",
    );
  });

  test("machines as a map of maps, with their nodes, addresses and VMIDs", () => {
    const { cluster, machines, file } = imported(
      `# ours
proxmox = { endpoint = "https://pve.example.org:8006/", api_token = "root@pam!x=TOPSECRET" }
cluster_name     = "homelab"
cluster_endpoint = "192.168.1.11"
cluster_gateway  = "192.168.1.254"
talos_version    = "v1.13.2"
nodes = {
  "talos-cp-01" = {
    host_node = "pve", machine_type = "controlplane", ip = "192.168.1.11"
    mac_address = "BC:24:11:2E:C8:00"
    vm_id = 800
    cpu = 4
    ram_dedicated = 8192 # MiB
  }
  "talos-worker-01" = { host_node = "pve2", machine_type = "worker", ip = "192.168.1.21", vm_id = 801, cpu = 8, ram_dedicated = 4096, datastore_id = "fast" }
}
`,
      "terraform.tfvars",
    );
    expect(machines).toMatchObject([
      {
        hostname: "talos-cp-01",
        host: "pve",
        vmid: 800,
        addresses: ["192.168.1.11"],
        mac: "BC:24:11:2E:C8:00",
      },
      { hostname: "talos-worker-01", host: "pve2", vmid: 801, size: { cores: 8, memoryMiB: 4096 } },
    ]);
    expect(cluster).toMatchObject({
      metadata: { name: "homelab" },
      providers: [{ endpoint: "https://pve.example.org:8006", storage: { vm: "fast" } }],
      network: { nodeCIDR: "192.168.1.0/24", gateway: "192.168.1.254" },
      endpoint: {},
    });
    expect(file).not.toContain("TOPSECRET");
    expect(file).toContain("# Tokens and passwords were not taken over");
  });

  test("machines that are only counted, in groups of variables", () => {
    const { cluster } = imported(
      `cluster_config = { name = "prod", talos_version = "v1.13.0", vip = "10.0.0.9" }
network_config = { cidr = "10.0.0.0/24", gateway = "10.0.0.1", bridge = "vmbr1", dns_servers = ["10.0.0.1", "9.9.9.9"] }
node_config = { control_plane_count = 3, worker_count = 2 }
resource_config = { control_plane_cores = 4, control_plane_memory = 4096, worker_cores = 8, worker_memory = 8192, worker_disk = 50 }
`,
      "prod.auto.tfvars",
    );
    expect(cluster).toMatchObject({
      endpoint: { vip: "10.0.0.9" },
      network: { nodeCIDR: "10.0.0.0/24", bridge: "vmbr1", dns: ["10.0.0.1", "9.9.9.9"] },
      controlPlane: { count: 3, machine: { cores: 4, memoryMiB: 4096 } },
      pools: [{ count: 2, machine: { cores: 8, memoryMiB: 8192, diskGiB: 50 } }],
    });
  });

  test("every group of a module is read: datastores, templates, ranges, offsets, nodes by role, tags", () => {
    const { cluster, machines, file } = imported(
      `proxmox_config = {
  endpoint   = "https://pve.example.org:8006/api2/json"
  api_token  = "root@pam!x=TOPSECRET"
  datastores = { iso = "isos", template = "tank", vm = "fast", cloud_init = "local" }
  ccm_enabled = false
}
network_config = { cidr = "10.0.0.0/24", gateway = "10.0.0.1", bridge = "vmbr1", interface = "eth0", dns_servers = ["9.9.9.9"] }
cluster_config = { name = "prod", talos_version = "v1.13.0", vip = "10.0.0.9", endpoint_override = "https://k8s.example.org:6443" }
node_config = { control_plane_count = 3, worker_count = 2, control_plane_ip_offset = 30, worker_ip_offset = 40 }
template_config = { control_plane_id = 998, worker_id = 999, node = "pve2" }
resource_config = { control_plane = { cores = 4, memory = 4096, disk = 20 }, worker = { cores = 8, memory = 8192, disk = 50 } }
vm_id_ranges = { control_plane = { start = 2100, end = 2199 }, worker = [3100, 3199] }
node_distribution = { control_plane = ["pve1", "pve2", "pve3"], worker = ["pve3", "pve1"] }
tagging_config = { common_tags = ["prod"], extra_tags = ["gold"] }
`,
      "cluster.auto.tfvars",
    );
    expect(cluster).toMatchObject({
      providers: [
        {
          endpoint: "https://pve.example.org:8006",
          nodes: ["pve1", "pve2", "pve3"],
          storage: { image: "isos", vm: "fast", efi: "fast", cloudinit: "local" },
        },
      ],
      endpoint: { vip: "10.0.0.9", extraSANs: ["k8s.example.org"] },
      templates: { controlPlane: 998, worker: 999, nodes: ["pve2"] },
      vmids: { controlPlane: "2100-2199", worker: "3100-3199" },
      tags: ["prod", "gold"],
      addons: { ccm: { proxmox: { enabled: false } } },
    });
    expect(machines.map(({ name, host, vmid, addresses }) => [name, host, vmid, ...addresses])).toEqual([
      ["prod-cp-1", "pve1", 2100, "10.0.0.30"],
      ["prod-cp-2", "pve2", 2101, "10.0.0.31"],
      ["prod-cp-3", "pve3", 2102, "10.0.0.32"],
      ["prod-worker-1", "pve3", 3100, "10.0.0.40"],
      ["prod-worker-2", "pve1", 3101, "10.0.0.41"],
    ]);
    expect(file).toContain(
      "# Not taken over: proxmox_config_datastores_template, network_config_interface.\n",
    );
    expect(file).not.toContain("TOPSECRET");
  });

  test.each([
    ['node_distribution = ["a", "b"]', ["a", "b"]],
    ["node_distribution = { a = { workers = 1 }, b = { workers = 0 } }", ["a", "b"]],
    ['target_node = "hydra"', ["hydra"]],
  ])("nodes of the platform: %s", (text, nodes) => {
    const { cluster } = imported(
      `cluster_name = "x"\ngateway = "10.0.0.1"\ncontrol_plane_count = 1\n${text}\n`,
      "x.tfvars",
    );
    expect(cluster.providers[0]?.nodes).toEqual(nodes);
  });

  test("values of every kind are read; what is none is told with its line", () => {
    const text = `a = "x\\"y" // one
/* two */ b = [1, -2.5, true, null,]
"c d" = { e : <<EOT
line
EOT
}
`;
    expect(parseTfvars(text, "f")).toEqual({ a: 'x"y', b: [1, -2.5, true, null], "c d": { e: "line\n" } });
    expect(() => parseTfvars("a = 1\nb = $x", "f")).toThrow("f:2: this is no value of Terraform");
    expect(parseTfvars('a = "\\u00e9 $${x} \\\\n"', "f")).toEqual({ a: "é ${x} \\n" });
    for (const broken of ["a", "a = ", "a = [1", "a = var.b", "= 1"]) {
      expect(() => parseTfvars(broken, "f"), broken).toThrow(/^f/);
    }
  });
});

test("a state with machines of the bpg provider: what really was made", () => {
  const vm = (name: string, vmId: number, address: string, extra: object[] = []) => ({
    attributes: {
      name,
      vm_id: vmId,
      node_name: "hydra",
      template: false,
      tags: ["Talos"],
      cpu: [{ cores: 2 }],
      memory: [{ dedicated: 2048 }],
      disk: [{ interface: "scsi0", size: 50, datastore_id: "local" }, ...extra],
      network_device: [
        { bridge: "vmbr0", mac_address: `BC:24:11:00:0${Math.floor(vmId / 1000)}:0${vmId % 10}`, vlan_id: 0 },
      ],
      initialization: [
        {
          ip_config: [{ ipv4: [{ address, gateway: "192.168.1.3" }] }],
          dns: [{ servers: ["192.168.1.3"] }],
        },
      ],
    },
  });
  const state = {
    version: 4,
    terraform_version: "1.9.0",
    resources: [
      {
        mode: "managed",
        type: "proxmox_virtual_environment_vm",
        instances: [
          vm("talos-control-01", 2000, "192.168.1.101/24"),
          vm("talos-worker-01", 3000, "192.168.1.102/24", [{ size: 50, datastore_id: "local" }]),
          { attributes: { name: "template", template: true } },
        ],
      },
      {
        mode: "managed",
        type: "talos_machine_secrets",
        instances: [{ attributes: { machine_secrets: { x: "HIDDEN" } } }],
      },
      {
        mode: "data",
        type: "talos_machine_configuration",
        instances: [
          {
            attributes: {
              cluster_name: "home",
              cluster_endpoint: "https://192.168.1.101:6443",
              talos_version: "v1.12.0",
            },
          },
        ],
      },
    ],
  };
  const named = JSON.stringify(state).replace("talos-control-01", "talos-controlplane-01");
  const { cluster, machines, file } = imported(named, "terraform.tfstate");
  expect(machines).toMatchObject([
    { hostname: "talos-controlplane-01", vmid: 2000, host: "hydra", addresses: ["192.168.1.101"] },
    { hostname: "talos-worker-01", vmid: 3000, size: { extraDisks: [{ gib: 50, storage: "local" }] } },
  ]);
  expect(cluster).toMatchObject({
    metadata: { name: "home" },
    versions: { talos: "v1.12.0" },
    network: { gateway: "192.168.1.3", dns: ["192.168.1.3"] },
    endpoint: { port: 6443 },
    tags: ["talos"],
  });
  expect(file).not.toContain("HIDDEN");
  expect(file).toContain("# The state holds the cluster's secrets; they were not read.");
  expect(parse(file)).toMatchObject({ kind: "TalosCluster" });
});

test("a state of machines that ask for their addresses has those that their agents told", () => {
  const vm = (name: string, addresses: readonly string[][]) => ({
    attributes: {
      name,
      node_name: "pve",
      initialization: [{ ip_config: [{ ipv4: [{ address: "dhcp" }] }] }],
      ipv4_addresses: addresses,
    },
  });
  const state = {
    terraform_version: "1.9.0",
    resources: [
      {
        mode: "managed",
        type: "proxmox_virtual_environment_vm",
        instances: [vm("cp-1", [["127.0.0.1"], ["10.7.0.200"]]), vm("w-1.lan", [])],
      },
    ],
  };
  const { cluster, machines } = imported(JSON.stringify(state), "terraform.tfstate");
  expect(cluster.network).toMatchObject({ nodeCIDR: "10.7.0.0/24", addressing: "dhcp" });
  expect(machines).toMatchObject([
    { hostname: "cp-1", addresses: ["10.7.0.200"] },
    { hostname: "w-1", addresses: ["10.7.0.20"] },
  ]);
});

test("a state's system disk is the one that is booted, wherever it stands", () => {
  const disks = [
    { interface: "scsi1", size: 100, datastore_id: "big" },
    { interface: "scsi0", size: 50, datastore_id: "local-lvm" },
  ];
  const of = (more: object) => {
    const instances = [{ attributes: { name: "cp-1", disk: disks, ...more } }];
    const resource = { mode: "managed", type: "proxmox_virtual_environment_vm", instances };
    const state = { terraform_version: "1.9.0", resources: [resource] };
    const { cluster, machines } = imported(JSON.stringify(state), "terraform.tfstate");
    return [cluster.providers[0]?.storage.vm, machines[0]?.size.diskGiB, machines[0]?.size.extraDisks];
  };
  expect(of({})).toEqual(["local-lvm", 50, [{ gib: 100, storage: "big" }]]);
  expect(of({ boot_order: ["scsi1"] })).toEqual(["big", 100, [{ gib: 50, storage: "local-lvm" }]]);
});

test("a state's control planes are told by their names, their tags, or what was applied to them", () => {
  const vm = (name: string, at: number, tags: readonly string[] = []) => ({
    attributes: {
      name,
      tags,
      initialization: [{ ip_config: [{ ipv4: [{ address: `10.0.0.${at}/24` }] }] }],
    },
  });
  const applied = (at: number, type: string) => ({
    attributes: {
      node: `10.0.0.${at}`,
      machine_configuration_input: `version: v1alpha1\nmachine:\n    # Its role.\n    type: ${type}\n    token: HIDDEN\n`,
    },
  });
  const resource = (type: string, instances: readonly object[]) => ({ mode: "managed", type, instances });
  const state = {
    terraform_version: "1.9.0",
    resources: [
      resource("proxmox_virtual_environment_vm", [
        vm("talos-control-01", 11),
        vm("cp1", 12),
        vm("one", 13, ["talos", "talos-ctrl"]),
        vm("two", 14),
        vm("master-1", 15),
        vm("control-worker-1", 21),
        vm("master-3", 22),
      ]),
      resource("talos_machine_configuration_apply", [applied(14, "controlplane"), applied(22, "worker")]),
    ],
  };
  const { machines, file } = imported(JSON.stringify(state), "terraform.tfstate");
  expect(machines.map(({ hostname, role }) => [hostname, role])).toEqual([
    ["talos-control-01", "controlplane"],
    ["cp1", "controlplane"],
    ["one", "controlplane"],
    ["two", "controlplane"],
    ["master-1", "controlplane"],
    ["control-worker-1", "worker"],
    ["master-3", "worker"],
  ]);
  expect(file).not.toContain("HIDDEN");
});

test("what is none of them, or has no control plane, is refused", () => {
  expect(() => importCluster("hello", "x.txt")).toThrow("x.txt is neither a talconfig.yaml");
  expect(() => imported('cluster_name = "a"', "terraform.tfvars")).toThrow(
    expect.objectContaining({
      message: expect.stringContaining("names no control plane"),
      data: expect.objectContaining({ finding: "import-no-control-plane" }),
    }),
  );
});
