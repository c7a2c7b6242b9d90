import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import { checkPatches } from "../render/check-patches.ts";
import { machineConfig } from "../render/machine-config.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { importCluster } from "./import-cluster.ts";
import { writeImported } from "./write-imported.ts";

const options = { provider: "pve-api", endpoint: undefined, recipients: [], source: "theirs" } as const;

function imported(text: string, source: string, env: Readonly<Record<string, string>> = {}) {
  const read = importCluster(text, source, env);
  const { text: file, assumed } = writeImported(read, options);
  const cluster = parseCluster(file, "cluster.yaml");
  return { cluster, machines: machinesOf(cluster), file, assumed, patchFiles: read.patchFiles };
}

describe("unusual talconfigs", () => {
  const node = (more: string) => `
  - hostname: cp-1
    ipAddress: 10.0.0.131
    controlPlane: true
${more}`;
  const head = "clusterName: home\ntalosVersion: v1.13.2\nendpoint: https://10.0.0.131:6443\nnodes:";

  test("a network that does not begin at zero is the one that machines are in", () => {
    const addresses = "    networkInterfaces: [{ interface: eth0, addresses: [10.0.0.131/25] }]";
    expect(imported(`${head}${node(addresses)}`, "t.yaml").cluster.network).toMatchObject({
      nodeCIDR: "10.0.0.128/25",
      addressing: "static",
    });
  });

  test("machines that ask for their addresses go on asking", () => {
    const dhcp = "    networkInterfaces: [{ interface: eth0, dhcp: true }]";
    const { cluster, machines } = imported(`${head}${node(dhcp)}`, "t.yaml");
    expect(cluster.network).toMatchObject({ nodeCIDR: "10.0.0.0/24", addressing: "dhcp" });
    expect(machines[0]?.addresses).toEqual(["10.0.0.131"]);
  });

  test("the endpoint's name beside a VIP stays the endpoint", () => {
    const vip =
      "    networkInterfaces: [{ interface: eth0, addresses: [10.0.0.131/24], vip: { ip: 10.0.0.130 } }]";
    const at = (host: string) =>
      imported(`${head}${node(vip)}`.replace("//10.0.0.131", `//${host}`), "t.yaml");
    const { cluster, file } = at("k8s.home.lan");
    expect(cluster.endpoint).toMatchObject({ vip: "10.0.0.130", dns: "k8s.home.lan", extraSANs: [] });
    expect(file).not.toContain("# the endpoint was");
    const own = at("10.0.0.131");
    expect(own.cluster.endpoint).toMatchObject({ vip: "10.0.0.130", extraSANs: [] });
    expect(own.file).toContain("# the endpoint was 10.0.0.131");
    expect(at("10.0.0.130").file).not.toContain("# the endpoint was");
  });

  test("IPv6 alone, a name with a domain, and a name that leads out of the folder", () => {
    const { cluster, machines, patchFiles, file } = imported(
      `clusterName: six
talosVersion: v1.13.2
endpoint: https://[fd00:10::9]:6443
clusterPodNets: [fd00:244::/56]
clusterSvcNets: [fd00:96::/112]
nodes:
  - hostname: one.example.org
    ipAddress: fd00:10::11
    controlPlane: true
    networkInterfaces:
      - addresses: [fd00:10::11/64]
        routes: [{ network: "::/0", gateway: "fd00:10::1" }]
        vip: { ip: "fd00:10::9" }
        vlans: [{ vlanId: 5 }]
  - hostname: ../../../tmp/two
    ipAddress: fd00:10::21
    patches: ["machine: {}"]
`,
      "t.yaml",
    );
    expect(machines.map(({ hostname, addresses }) => ({ hostname, addresses }))).toEqual([
      { hostname: "one", addresses: ["fd00:10::11"] },
      { hostname: "six-worker-1", addresses: ["fd00:10::21"] },
    ]);
    expect(cluster).toMatchObject({
      network: { nodeCIDR: "fd00:10::/64", nodeCIDR6: null, gateway: "fd00:10::1" },
      endpoint: { vip: "fd00:10::9" },
    });
    for (const name of patchFiles.keys()) expect(name).toMatch(/^patches\/nodes\/[a-z0-9-]+\.yaml$/);
    expect(file).toContain("# one.example.org: it is one to Kubernetes; its domain was left out.");
    expect(file).toContain(
      "# one.example.org: networkInterfaces: not taken over: vlans; a patch can say it.",
    );
  });

  test("both families: the second network is taken over, and addresses of it are to be compared", () => {
    const both = "    networkInterfaces: [{ interface: eth0, addresses: [fd00::83/64, 10.0.0.131/24] }]";
    const text = `${head}${node(both)}`.replace("ipAddress: 10.0.0.131", "ipAddress: 10.0.0.131, fd00::83");
    const { cluster, assumed } = imported(text, "t.yaml");
    expect(cluster.network).toMatchObject({ nodeCIDR: "10.0.0.0/24", nodeCIDR6: "fd00::/64" });
    expect(assumed.join()).toContain("compare them");
  });

  test("workers of other labels, taints and extensions are pools of their own", () => {
    const workers = `
  - { hostname: w-1, ipAddress: 10.0.0.141 }
  - { hostname: w-2, ipAddress: 10.0.0.142, nodeTaints: { gpu: "yes:NoSchedule" }, nodeLabels: { gpu: true } }
  - { hostname: w-3, ipAddress: 10.0.0.143, schematic: { customization: { systemExtensions: { officialExtensions: [siderolabs/zfs] } } } }
worker: { schematic: { customization: { systemExtensions: { officialExtensions: [siderolabs/iscsi-tools] } } }, nodeLabels: { a: b } }
controlPlane: { schematic: { customization: { systemExtensions: { officialExtensions: [siderolabs/qemu-guest-agent] } } } }`;
    const { cluster } = imported(`${head}${node("")}${workers}`, "t.yaml");
    expect(cluster.image.extensions).toEqual(["siderolabs/qemu-guest-agent"]);
    expect(cluster.pools).toMatchObject([
      { count: 1, labels: { a: "b" }, taints: {}, extensions: ["siderolabs/iscsi-tools"] },
      { count: 1, taints: { gpu: "yes:NoSchedule" }, labels: { gpu: "true" } },
      { count: 1, labels: { a: "b" }, extensions: ["siderolabs/zfs"] },
    ]);
  });

  test("variables are those of the environment; one that is not set is named", () => {
    const text = `${head}${node("")}`.replace("clusterName: home", "clusterName: ${NAME}");
    expect(imported(text, "t.yaml", { NAME: "prod" }).cluster.metadata.name).toBe("prod");
    expect(() => imported(text, "t.yaml")).toThrow(
      "clusterName needs the environment variable NAME, which is not set",
    );
  });

  test("what a role says holds for its nodes, where they say nothing of their own", () => {
    const { cluster, machines, patchFiles, file } = imported(
      `${head.replace("10.0.0.131", "10.0.0.130")}
  - { hostname: cp-1, ipAddress: 10.0.0.131, controlPlane: true }
  - { hostname: w-1, ipAddress: 10.0.0.141, nodeLabels: { own: "1" }, nameservers: [] }
controlPlane:
  networkInterfaces: [{ interface: eth0, dhcp: true, vip: { ip: 10.0.0.130 } }]
  nameservers: [10.0.0.2]
  nodeLabels: { zone: a }
worker: { nodeLabels: { role: "2" }, kernelModules: [{ name: nbd }], networkInterfaces: [{ bond: {} }] }`,
      "t.yaml",
    );
    expect(cluster).toMatchObject({
      network: { addressing: "dhcp", dns: ["10.0.0.2"] },
      endpoint: { vip: "10.0.0.130" },
      pools: [{ labels: { own: "1" } }],
    });
    expect(cluster.pools[0]?.labels).toEqual({ own: "1" });
    expect([...patchFiles]).toEqual([
      ["patches/control-plane-settings.yaml", "machine:\n  nodeLabels:\n    zone: a\n"],
      ["patches/worker-settings.yaml", "machine:\n  kernel:\n    modules:\n      - name: nbd\n"],
    ]);
    expect(() => checkPatches({ cluster, machines, patches: patchFiles })).not.toThrow();
    expect(file).toContain("# worker: networkInterfaces: not taken over: bond; a patch can say it.");
  });

  test("a machine's address that is a name is told", () => {
    const text = `${head}${node("")}`.replace("ipAddress: 10.0.0.131", "ipAddress: node1.lan");
    expect(imported(text, "t.yaml").file).toContain("# cp-1: its address node1.lan is a name");
  });

  test("the factory's registry is its URL", () => {
    const { cluster, file } = imported(
      `${head}${node("")}\nimageFactory: { registryURL: factory.home.lan, protocol: http, schematicEndpoint: /s }`,
      "t.yaml",
    );
    expect(cluster.image.factory).toBe("http://factory.home.lan");
    expect(file).toContain("# imageFactory: not taken over: schematicEndpoint;");
  });

  describe("files that it names", () => {
    const text = `${head}${node(`    patches: ["@./a.yaml", "@b.yaml"]
    machineFiles: [{ path: /var/a, content: "@./text" }]`)}`;
    const files = (contents: Readonly<Record<string, string>>) => ({
      read: (name: string) => contents[name],
      nameOf: (name: string) => `../old/${name}`,
    });

    test("are named from where the new file is, and read: for operations, for the network plugin, for contents", () => {
      const { patchFiles, machines, cni } = importCluster(
        text,
        "t.yaml",
        {},
        files({
          "./a.yaml": "cluster: { network: { cni: { name: none } } }",
          "b.yaml": "[{ op: add, path: /machine/env/A, value: b }]",
          "./text": "hello",
        }),
      );
      expect(cni).toBe("none");
      expect(machines[0]?.patches).toEqual([
        "patches/nodes/cp-1-settings.yaml",
        "../old/./a.yaml",
        "patches/nodes/cp-1-2.yaml",
      ]);
      expect(patchFiles.get("patches/nodes/cp-1-2.yaml")).toBe("machine:\n  env:\n    A: b\n");
      expect(parse(patchFiles.get("patches/nodes/cp-1-settings.yaml") ?? "")).toEqual({
        machine: { files: [{ path: "/var/a", content: "hello" }] },
      });
    });

    test("and are not there are told before anything is written", () => {
      expect(() => importCluster(text, "t.yaml", {}, files({ "./a.yaml": "", "./text": "" }))).toThrow(
        expect.objectContaining({
          message: expect.stringContaining("names the file b.yaml, which is not there"),
          data: expect.objectContaining({ finding: "patch-unreadable" }),
        }),
      );
    });
  });

  describe("what Talos has a section or a document for becomes a patch", () => {
    const settings = `    nodeLabels: { zone: a }
    nodeTaints: { own: ':NoSchedule' }
    nodeAnnotations: { note: "1" }
    machineFiles: [{ path: /var/a, content: x, op: create, permissions: 0o644 }]
    machineDisks: [{ device: /dev/sdb, partitions: [{ mountpoint: /var/b }] }]
    extraMachineCertSans: [cp.example.org]
    ingressFirewall: { rules: [{ name: apid, portSelector: { ports: [50000], protocol: tcp }, ingress: [{ subnet: 10.0.0.0/8 }] }] }
    extensionServices: [{ name: nut, environment: [A=b] }]`;
    const patchOf = (talos: string) => {
      const text = `${head.replace("v1.13.2", talos)}${node(settings)}`;
      const { cluster, machines, patchFiles, file } = imported(text, "t.yaml");
      expect(() => checkPatches({ cluster, machines, patches: patchFiles })).not.toThrow();
      expect(file).not.toContain("not taken over");
      const patch = patchFiles.get("patches/nodes/cp-1-settings.yaml") ?? "";
      return patch.split("---\n").map((document): unknown => parse(document));
    };
    const marks = { annotations: { note: "1" }, labels: { zone: "a" }, taints: { own: ":NoSchedule" } };
    const common = {
      certSANs: ["cp.example.org"],
      disks: [{ device: "/dev/sdb", partitions: [{ mountpoint: "/var/b" }] }],
      files: [{ path: "/var/a", content: "x", op: "create", permissions: 0o644 }],
    };
    const documents = [
      { apiVersion: "v1alpha1", kind: "NetworkDefaultActionConfig", ingress: "block" },
      {
        apiVersion: "v1alpha1",
        kind: "NetworkRuleConfig",
        name: "apid",
        portSelector: { ports: [50_000], protocol: "tcp" },
        ingress: [{ subnet: "10.0.0.0/8" }],
      },
      { apiVersion: "v1alpha1", kind: "ExtensionServiceConfig", name: "nut", environment: ["A=b"] },
    ];

    test("of v1.13", () => {
      const { annotations, labels, taints } = marks;
      const machine = { ...common, nodeLabels: labels, nodeAnnotations: annotations, nodeTaints: taints };
      expect(patchOf("v1.13.2")).toEqual([{ machine }, ...documents]);
    });

    test("of v1.14", () => {
      expect(patchOf("v1.14.0")).toEqual([
        { machine: common },
        { apiVersion: "v1alpha1", kind: "KubeNodeConfig", ...marks },
        ...documents,
      ]);
    });
  });

  test("patches of a node that is called as a role do not take the place of the role's", () => {
    const text = `${head}
  - { hostname: worker, ipAddress: 10.0.0.131, controlPlane: true, patches: ["machine: {}"] }
worker: { patches: ["cluster: {}"] }`;
    expect([...imported(text, "t.yaml").patchFiles.values()].toSorted()).toEqual([
      "cluster: {}",
      "machine: {}",
    ]);
  });

  test("its network plugin stays what it is: Talos' Flannel when nothing is said, none for others' manifests", () => {
    const cni = (more: string, patch = "machine: {}", talos = "v1.13.2") => {
      const text = `${head.replace("v1.13.2", talos)}${node(`    patches: [${JSON.stringify(patch)}]`)}\n${more}`;
      const { cluster, file, patchFiles } = imported(text, "t.yaml");
      return [
        cluster.addons.cni.type,
        patchFiles.get("patches/cni.yaml") ??
          file.includes("# not taken over: cniConfig.urls (https://a/cni.yaml)"),
      ];
    };
    expect(cni("")).toEqual(["flannel", false]);
    expect(cni("cniConfig: { name: none }")).toEqual(["none", false]);
    const custom = "cniConfig: { name: custom, urls: [https://a/cni.yaml] }";
    const patch =
      "cluster:\n  network:\n    cni:\n      name: custom\n      urls:\n        - https://a/cni.yaml\n";
    expect(cni(custom)).toEqual(["none", patch]);
    expect(cni("cniConfig: { name: none, urls: [https://a/cni.yaml] }")).toEqual(["none", true]);
    expect(cni("", "cluster: { network: { cni: { name: none } } }")).toEqual(["none", false]);
  });

  test("manifests of a network plugin are documents of the control planes from v1.14 on", async () => {
    const text = `${head.replace("v1.13.2", "v1.14.0")}${node("")}
  - { hostname: w-1, ipAddress: 10.0.0.132 }
cniConfig: { name: custom, urls: [https://a/cni.yaml, https://a/more.yaml] }`;
    const { cluster, machines, patchFiles, file } = imported(text, "t.yaml");
    expect(cluster.addons.cni.type).toBe("none");
    expect(file).not.toContain("not taken over: cniConfig");
    const source = { cluster, machines, secrets: await testBundle(), patches: patchFiles };
    const manifests = machines.map((machine) =>
      machineConfig(source, machine).documents.filter(({ kind }) => kind === "KubeExternalManifestConfig"),
    );
    expect(manifests).toEqual([
      [
        {
          apiVersion: "v1alpha1",
          kind: "KubeExternalManifestConfig",
          name: "custom-cni",
          url: "https://a/cni.yaml",
        },
        {
          apiVersion: "v1alpha1",
          kind: "KubeExternalManifestConfig",
          name: "custom-cni-2",
          url: "https://a/more.yaml",
        },
      ],
      [],
    ]);
  });

  test("the network, its gateway and the MAC are those of the card with the machine's own address", () => {
    const cards = `    networkInterfaces:
      - deviceSelector: { hardwareAddr: "00:30:93:12:31:78" }
        addresses: [10.9.9.1/24]
        mtu: 9000
      - deviceSelector: { hardwareAddr: "bc:24:11:00:00:01" }
        addresses: [10.0.0.131/24]
        routes:
          - { network: 10.3.0.0/16, gateway: 10.0.0.3 }
          - { network: "::/0", gateway: "fd00::1" }
          - { gateway: 10.0.0.254 }`;
    const { cluster, machines } = imported(`${head}${node(cards)}`, "t.yaml");
    expect(cluster.network).toMatchObject({ nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.254", mtu: "auto" });
    expect(machines[0]).toMatchObject({ mac: "BC:24:11:00:00:01", addresses: ["10.0.0.131"] });
  });

  test("nodes that are alike may be written by reference to the first one", () => {
    const text = `clusterName: home
talosVersion: v1.13.2
endpoint: https://10.0.0.130:6443
nodes:
  - &cp
    hostname: cp-1
    ipAddress: 10.0.0.131
    controlPlane: true
    networkInterfaces:
      - &card { addresses: [10.0.0.131/24], vip: { ip: 10.0.0.130 }, deviceSelector: { hardwareAddr: "bc:24:11:00:00:01" } }
  - { <<: *cp, hostname: cp-2, ipAddress: 10.0.0.132, networkInterfaces: [{ <<: *card, addresses: [10.0.0.132/24], deviceSelector: { hardwareAddr: "bc:24:11:00:00:02" } }] }
  - { <<: *cp, hostname: cp-3, ipAddress: 10.0.0.133, networkInterfaces: [] }`;
    const { machines, file } = imported(text, "t.yaml");
    expect(machines.map(({ hostname, role, mac }) => [hostname, role, mac])).toMatchObject([
      ["cp-1", "controlplane", "BC:24:11:00:00:01"],
      ["cp-2", "controlplane", "BC:24:11:00:00:02"],
      ["cp-3", "controlplane", expect.any(String)],
    ]);
    expect(file).not.toContain("not taken over");
  });

  test("an installer's extensions are told by its schematic, or it is said that they cannot be", () => {
    const image = (id: string) => `    talosImageURL: factory.talos.dev/installer/${id}:v1.13.2
    machineSpec: { secureboot: false }`;
    // The factory's own id.
    const tools = "613e1592b2da41ae5e265e8789429f22e121aab91cb4deb6bc3c0b6262961245";
    const known = imported(`${head}${node(image(tools))}`, "t.yaml");
    expect(known.cluster.image.extensions).toEqual(["siderolabs/iscsi-tools", "siderolabs/util-linux-tools"]);
    expect(known.file).not.toContain("not taken over");
    const unknown = imported(`${head}${node(image("ab".repeat(32)))}`, "t.yaml");
    expect(unknown.file).toContain(
      "its extensions cannot be told from here; write them into image.extensions",
    );
  });

  describe("patches of operations", () => {
    const imports = (operations: string, talos = "v1.13.2") => {
      const text = `${head}${node(`    patches: [${JSON.stringify(operations)}]`)}`;
      const { file, cluster, machines, patchFiles } = imported(text.replace("v1.13.2", talos), "t.yaml");
      return { file, cluster, machines, patchFiles, patch: patchFiles.get("patches/nodes/cp-1-1.yaml") };
    };

    test("are merge patches afterwards, with which the file is valid", () => {
      const { file, patch, ...rest } = imports(`
- { op: add, path: /machine/env, value: { A: b } }
- { op: add, path: /machine/kubelet/extraMounts/-, value: { source: /a } }
- { op: add, path: /machine/kubelet/extraMounts/-, value: { source: /b } }
- { op: replace, path: /machine/sysctls/net.core~1a, value: "1" }
- { op: remove, path: /cluster/apiServer/admissionControl }
- { op: add, path: /cluster/discovery/enabled, value: false }
- { op: replace, path: /cluster/network/podSubnets, value: [10.9.0.0/16] }`);
      expect(parse(patch ?? "")).toEqual({
        machine: {
          env: { A: "b" },
          kubelet: { extraMounts: [{ source: "/a" }, { source: "/b" }] },
          sysctls: { "net.core/a": "1" },
        },
        cluster: {
          apiServer: { admissionControl: { $patch: "delete" } },
          discovery: { enabled: false },
          network: { podSubnets: ["10.9.0.0/16"] },
        },
      });
      expect(() => checkPatches({ ...rest, patches: rest.patchFiles })).not.toThrow();
      expect(file).toContain("# patches/nodes/cp-1-1.yaml was a JSON patch");
      expect(file).not.toContain("without");
    });

    test("what is replaced as a whole is taken away first", () => {
      const { patch, cluster } = imports(`
- { op: replace, path: /cluster/network/cni, value: { name: none } }`);
      expect((patch ?? "").split("---\n").map((text): unknown => parse(text))).toEqual([
        { cluster: { network: { cni: { $patch: "delete" } } } },
        { cluster: { network: { cni: { name: "none" } } } },
      ]);
      expect(cluster.addons.cni.type).toBe("none");
    });

    test("what merging cannot say is named", () => {
      const { patch, file } = imports(`
- { op: test, path: /machine/type, value: worker }
- { op: remove, path: /machine/certSANs/0 }
- { op: add, path: /machine/env/A, value: "" }
- { op: add, path: /cluster/network/podSubnets/-, value: 10.9.0.0/16 }
- { op: add, path: /machine/env/B, value: b }`);
      expect(patch).toBe("machine:\n  env:\n    B: b\n");
      expect(file).toContain(
        "without test /machine/type, remove /machine/certSANs/0, add /machine/env/A, add /cluster/network/podSubnets/-, which",
      );
      const none = imports("[{ op: move, from: /a, path: /b }, 7]");
      expect(none.patch).toBeUndefined();
      expect(none.file).toContain(
        "# not taken over: the JSON patch patches/nodes/cp-1-1.yaml: move /b, what is no operation.",
      );
    });

    test("stay what they are where Talos takes them", () => {
      const text = "[{ op: add, path: /machine/env, value: { A: b } }]";
      const { patch, file } = imports(text, "v1.11.2");
      expect(patch).toBe(text);
      expect(file).toContain("is a JSON patch, which Talos takes no longer from v1.12 on");
    });
  });
});
