import { readdirSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { machinesOf } from "../cluster/machines.ts";
import { parseCluster } from "../cluster/parse-cluster.ts";
import { parseConfig, writeConfig } from "../config/config-text.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { testCluster } from "../testing/test-cluster.ts";
import type { ConfigDocument } from "../config/document.ts";
import { applyPatches } from "../patch/apply-patches.ts";
import { checkPatches } from "./check-patches.ts";
import { machineConfig } from "./machine-config.ts";
import { renderFiles } from "./render-files.ts";
import { talconfig } from "./talconfig.ts";

let secrets: SecretsBundle;
beforeAll(async () => {
  secrets = await testBundle();
});

function source(
  more: Readonly<Record<string, unknown>> = {},
  patches: Readonly<Record<string, string>> = {},
) {
  const cluster = testCluster(more);
  return { cluster, secrets, machines: machinesOf(cluster), patches: new Map(Object.entries(patches)) };
}

function configOf(name: string, given: ReturnType<typeof source>) {
  const machine = given.machines.find((each) => each.name === name);
  if (machine === undefined) throw new Error(`no ${name}`);
  return machineConfig(given, machine);
}

const network = {
  nodeCIDR: "10.0.0.0/24",
  nodeCIDR6: "fd00:1::/64",
  gateway: "10.0.0.1",
  dns: ["10.0.0.1"],
  ntp: ["time.example.org"],
  search: ["example.org"],
  mtu: 9000,
};
const pools = [{ name: "worker", labels: { tier: "web" }, taints: { dedicated: "web:NoSchedule" } }];

test("up to v1.11 a machine's own settings are in the v1alpha1 document", () => {
  const given = source({ versions: { talos: "v1.11.0" }, network, pools });
  const [document, ...others] = configOf("prod-cp-1", given).documents;
  expect(others).toEqual([]);
  expect(document).toMatchObject({
    machine: {
      network: {
        hostname: "prod-cp-1",
        interfaces: [
          {
            deviceSelector: { hardwareAddr: given.machines[0]?.mac.toLowerCase() },
            addresses: ["10.0.0.10/24", "fd00:1::a/64"],
            routes: [{ network: "0.0.0.0/0", gateway: "10.0.0.1" }],
            mtu: 9000,
            dhcp: false,
            vip: { ip: "10.0.0.9" },
          },
        ],
        nameservers: ["10.0.0.1"],
        searchDomains: ["example.org"],
      },
      time: { servers: ["time.example.org"] },
      kubelet: { nodeIP: { validSubnets: ["10.0.0.0/24", "fd00:1::/64"] } },
    },
    cluster: { etcd: { advertisedSubnets: ["10.0.0.0/24", "fd00:1::/64"] } },
  });
});

test.each(["v1.11.0", "v1.13.9", "v1.14.0"])(
  "the name of a VIP is the endpoint of everybody (%s)",
  async (talos) => {
    const given = source({ versions: { talos }, endpoint: { vip: "10.0.0.9", dns: "k8s.example.org" } });
    const files = new Map((await renderFiles({ ...given, now: 0 })).map(({ path, text }) => [path, text]));
    expect(parse(files.get("kubeconfig") ?? "")).toMatchObject({
      clusters: [{ cluster: { server: "https://k8s.example.org:6443" } }],
    });
    const plane = files.get("nodes/prod-cp-1.yaml") ?? "";
    expect(plane).toContain("endpoint: https://k8s.example.org:6443");
    expect(plane).toMatch(
      talos === "v1.11.0" ? /vip:\n +ip: 10\.0\.0\.9/ : /Layer2VIPConfig\nname: 10\.0\.0\.9/,
    );
    expect(plane.match(/- 10\.0\.0\.9$/gm)?.length).toBeGreaterThan(1);
    expect(files.get("nodes/prod-worker-1.yaml")).toContain("endpoint: https://k8s.example.org:6443");
    expect(parse(files.get("talconfig.yaml") ?? "")).toMatchObject({
      endpoint: "https://k8s.example.org:6443",
      additionalApiServerCertSans: ["10.0.0.9"],
    });
  },
);

describe.each(["v1.12.0", "v1.13.9", "v1.14.0"])("from v1.12 on (%s)", (talos) => {
  const given = () => source({ versions: { talos }, network, pools });

  test("the network is in documents of its own, the card found by its MAC", () => {
    const documents = configOf("prod-cp-1", given()).documents;
    const of = (kind: string) => documents.filter((document) => document["kind"] === kind);
    expect(of("HostnameConfig")).toEqual([
      { apiVersion: "v1alpha1", kind: "HostnameConfig", auto: "off", hostname: "prod-cp-1" },
    ]);
    expect(of("LinkAliasConfig")[0]).toMatchObject({
      selector: { match: `mac(link.permanent_addr) == "${given().machines[0]?.mac.toLowerCase()}"` },
    });
    expect(of("LinkConfig")[0]).toMatchObject({
      name: "net0",
      mtu: 9000,
      addresses: [{ address: "10.0.0.10/24" }, { address: "fd00:1::a/64" }],
      routes: [{ gateway: "10.0.0.1" }],
    });
    expect(of("Layer2VIPConfig")[0]).toMatchObject({ name: "10.0.0.9", link: "net0" });
    expect(of("ResolverConfig")).toHaveLength(1);
    expect(of("ResolverConfig")[0]).toMatchObject({ nameservers: [{ address: "10.0.0.1" }] });
    expect(of("TimeSyncConfig")[0]).toMatchObject({ ntp: { servers: ["time.example.org"] } });
  });

  test("a worker has its pool's labels, no VIP and nothing of etcd", () => {
    const { documents } = configOf("prod-worker-1", given());
    const text = writeConfig(documents);
    expect(text).not.toContain("Layer2VIPConfig");
    expect(text).not.toContain("etcd");
    const settings =
      talos === "v1.14.0"
        ? documents.find(({ kind }) => kind === "KubeNodeConfig")
        : (documents[0]?.["machine"] as object);
    expect(settings).toMatchObject(
      talos === "v1.14.0"
        ? { labels: { tier: "web" }, taints: { dedicated: "web:NoSchedule" } }
        : { nodeLabels: { tier: "web" }, nodeTaints: { dedicated: "web:NoSchedule" } },
    );
  });
});

describe.each(["v1.11.0", "v1.13.9", "v1.14.0"])("for cloud controllers (%s)", (talos) => {
  const isDocument = talos === "v1.14.0";
  const parts = (name: string, addons: object = {}) => {
    const { documents } = configOf(name, source({ versions: { talos }, addons }));
    const of = (kind: string) => documents.find((document) => document["kind"] === kind);
    const [main] = documents as unknown as readonly {
      readonly machine: {
        readonly kubelet?: { readonly extraArgs?: object };
        readonly nodeLabels?: object;
        readonly features?: { readonly kubernetesTalosAPIAccess?: object };
      };
      readonly cluster: { readonly externalCloudProvider?: object };
    }[];
    return {
      provider: main?.cluster.externalCloudProvider,
      args: isDocument ? of("KubeletConfig")?.["extraArgs"] : main?.machine.kubelet?.extraArgs,
      labels: (isDocument ? of("KubeNodeConfig")?.["labels"] : main?.machine.nodeLabels) ?? {},
      access: isDocument ? of("KubeTalosAPIAccessConfig") : main?.machine.features?.kubernetesTalosAPIAccess,
    };
  };
  const region = "topology.kubernetes.io/region";

  test("kubelets leave their nodes to them and tell which VM they are in", () => {
    for (const name of ["prod-cp-1", "prod-worker-1"]) {
      const { provider, args, labels } = parts(name);
      const vmid = name === "prod-cp-1" ? 2000 : 3000;
      expect(provider).toEqual({ enabled: true });
      expect(args).toEqual({ "provider-id": `proxmox://pve/${vmid}` });
      expect(labels).toMatchObject({ [region]: "pve", "topology.kubernetes.io/zone": "pve1" });
    }
  });

  test("Talos' one may read the machines' own API, which control planes alone can grant", () => {
    expect(parts("prod-cp-1").access).toMatchObject({
      allowedRoles: ["os:reader"],
      allowedKubernetesNamespaces: ["kube-system"],
    });
    expect(parts("prod-worker-1").access).toBeUndefined();
    const alone = parts("prod-cp-1", { ccm: { talos: { enabled: false } } });
    expect(alone).toMatchObject({ access: undefined, provider: { enabled: true } });
  });

  test("without them nothing of it is there, and with CSI the names of the platform are", () => {
    const ccm = { proxmox: { enabled: false }, talos: { enabled: false } };
    const none = parts("prod-cp-1", { ccm });
    expect(none).toMatchObject({ provider: undefined, args: undefined, access: undefined });
    expect(none.labels).not.toHaveProperty([region]);
    const csi = parts("prod-cp-1", { ccm, csi: { proxmox: {} } });
    expect(csi).toMatchObject({ provider: undefined, args: { "provider-id": "proxmox://pve/2000" } });
    expect(csi.labels).toHaveProperty([region], "pve");
  });
});

describe("machines that ask a DHCP server", () => {
  const asking = { ...network, addressing: "dhcp" };

  test("have no IPv4 address of their own in their configuration, and their IPv6 one still", () => {
    const { documents } = configOf("prod-cp-1", source({ network: asking, pools }));
    const link = documents.find(({ kind }) => kind === "LinkConfig");
    expect(link).toMatchObject({ name: "net0", addresses: [{ address: "fd00:1::a/64" }] });
    expect(link).not.toHaveProperty("routes");
    expect(documents).toContainEqual({ apiVersion: "v1alpha1", kind: "DHCPv4Config", name: "net0" });
    const [old] = configOf(
      "prod-cp-1",
      source({ versions: { talos: "v1.11.0" }, network: asking }),
    ).documents;
    const { interfaces } = (old as { machine: { network: { interfaces: object[] } } }).machine.network;
    expect(interfaces[0]).toMatchObject({ dhcp: true, addresses: ["fd00:1::a/64"] });
    expect(interfaces[0]).not.toHaveProperty("routes");
  });

  test("are listed for the server, and for talhelper as such", async () => {
    const given = source({ network: asking, pools });
    const files = await renderFiles({ ...given, now: 0 });
    const text = (path: string) => files.find((file) => file.path === path)?.text ?? "";
    const [first] = given.machines;
    expect(text("dhcp-hosts.conf").split("\n")).toContain(
      `dhcp-host=${first?.mac.toLowerCase()},10.0.0.10,prod-cp-1,infinite`,
    );
    expect(parse(text("talconfig.yaml"))).toMatchObject({
      nodes: expect.arrayContaining([
        expect.objectContaining({
          networkInterfaces: [expect.objectContaining({ dhcp: true, addresses: ["fd00:1::a/64"] })],
        }),
      ]),
    });
    const others = await renderFiles({ ...source({ network }), now: 0 });
    expect(others.map(({ path }) => path)).not.toContain("dhcp-hosts.conf");
  });
});

test("patches come in order, and of each value it is known where it comes from, and said", async () => {
  const given = source(
    {
      talos: { patches: [{ file: "all.yaml" }] },
      controlPlane: { patches: [{ file: "cp.yaml" }] },
      nodes: { "prod-cp-2": { patches: [{ file: "own.yaml" }] } },
    },
    {
      "all.yaml": "machine: { sysctls: { a: all, b: all, c: all } }",
      "cp.yaml": "machine: { sysctls: { b: cp, c: cp } }",
      "own.yaml": "machine: { sysctls: { c: own } }",
    },
  );
  const config = configOf("prod-cp-2", given);
  expect(config.documents[0]).toMatchObject({ machine: { sysctls: { a: "all", b: "cp", c: "own" } } });
  const origin = (...path: readonly string[]) => config.originOf("v1alpha1", path);
  expect(origin("machine", "sysctls", "a")).toBe("all.yaml");
  expect(origin("machine", "sysctls", "c")).toBe("own.yaml");
  expect(origin("machine", "type")).toBe("Talos v1.13");
  expect(config.originOf("HostnameConfig", ["hostname"])).toBe("cluster.yaml, machine prod-cp-2");
  expect(configOf("prod-worker-1", given).documents[0]).toMatchObject({ machine: { sysctls: { c: "all" } } });
  const files = await renderFiles({ ...given, now: 0, hasOrigins: true });
  const text = files.find(({ path }) => path === "nodes/prod-cp-2.yaml")?.text ?? "";
  expect(text).toContain("# Values without a comment are those of Talos v1.13.\n");
  expect(text).toMatch(/^ +b: cp # cp\.yaml\n +c: own # own\.yaml$/m);
  expect(text).toMatch(/^hostname: prod-cp-2 # cluster\.yaml, machine prod-cp-2$/m);
  expect(text).toMatch(/^ +type: controlplane$/m);
  expect(parseConfig(text, "f")).toEqual(config.documents);
});

test("a patch that is not there or does not fit is a finding, before anything is made", () => {
  const patches = { talos: { patches: [{ file: "all.yaml" }] } };
  expect(() => checkPatches(source(patches))).toThrow("the patch all.yaml is not there");
  for (const text of ["a: [", "kind: VolumeConfig", "machine: { nothing: { $patch: delete } }"]) {
    expect(() => checkPatches(source(patches, { "all.yaml": text }))).toThrow("all.yaml");
  }
  checkPatches(source(patches, { "all.yaml": "machine: { sysctls: { a: b } }" }));
});

test.each([
  [
    "v1.13.9",
    "machine: { kubelt: {} }",
    "machine.kubelt (from all.yaml) is no key that Talos knows; did you mean kubelet?",
  ],
  [
    "v1.13.9",
    "cluster: { apiserver: {} }",
    "cluster.apiserver (from all.yaml) is no key that Talos knows; did you mean apiServer?",
  ],
  ["v1.13.9", "kubelet: {}", "kubelet (from all.yaml) is no key that Talos knows"],
  [
    "v1.11.6",
    "{ apiVersion: v1alpha1, kind: Layer2VIPConfig, name: 10.0.0.8, link: a }",
    "Layer2VIPConfig/10.0.0.8 (from all.yaml) is a document that Talos v1.11 does not know: v1.12 brought it",
  ],
  [
    "v1.13.9",
    "{ apiVersion: v1alpha1, kind: KubeletConfig }",
    "KubeletConfig (from all.yaml) is a document that Talos v1.13 does not know: v1.14 brought it",
  ],
  [
    "v1.13.9",
    "machine: { network: { nameservers: [1.1.1.1] } }",
    "machine.network.nameservers (from all.yaml) and the document ResolverConfig exclude each other",
  ],
  [
    "v1.14.0",
    "machine: { nodeLabels: { a: b } }",
    "machine.nodeLabels (from all.yaml) and the document KubeNodeConfig exclude each other; write it as KubeNodeConfig",
  ],
  [
    "v1.14.0",
    "machine: { features: { hostDNS: { enabled: false } } }",
    "machine.features.hostDNS (from all.yaml) and the document ResolverConfig exclude",
  ],
])("of Talos %s the patch %s is refused here, as Talos would refuse it", (talos, text, told) => {
  const file = { versions: { talos }, network, talos: { patches: [{ file: "all.yaml" }] } };
  const check = () => checkPatches(source(file, { "all.yaml": text }));
  expect(check).toThrow(told);
  expect(check).toThrow(expect.objectContaining({ data: { finding: "patch-refused" } }));
});

test.each(["v1.11.6", "v1.12.0", "v1.13.9", "v1.14.0"])("of Talos %s what is generated is taken", (talos) => {
  const settings = {
    kubespan: true,
    diskEncryption: "tpm",
    discovery: { enabled: true, endpoint: "https://d.example" },
  };
  for (const versions of [{ talos }, { talos: "v1.14.0", contract: talos.slice(0, 5) }])
    expect(() => checkPatches(source({ versions, network, talos: settings }))).not.toThrow();
});

test.each([
  ["kind: HostnameConfig\napiVersion: v1alpha1\nauto: off\nhostname: web\n", "the hostname web, and"],
  ["kind: HostnameConfig\napiVersion: v1alpha1\nauto: stable\n", "auto: stable, and"],
  ["machine: { network: { hostname: web } }", "web and prod-cp-1, and"],
])("a patch that changes hostnames (%j) is hostname-patched", (text, told) => {
  const patches = { talos: { patches: [{ file: "all.yaml" }] } };
  const check = () => checkPatches(source(patches, { "all.yaml": text }));
  expect(check).toThrow(told);
  expect(check).toThrow(expect.objectContaining({ data: { finding: "hostname-patched" } }));
});

test("disks are encrypted with a key of each machine, or the TPM's", () => {
  const keysOf = (kind: string, name: string) =>
    configOf(name, source({ talos: { diskEncryption: kind } }))
      .documents.filter((document) => document["kind"] === "VolumeConfig")
      .map((document) => (document["encryption"] as { keys: unknown[] }).keys[0]);
  expect(keysOf("tpm", "prod-cp-1")).toEqual([
    { slot: 0, tpm: {} },
    { slot: 0, tpm: {} },
  ]);
  expect(keysOf("static", "prod-cp-1")).toEqual(keysOf("static", "prod-cp-1"));
  expect(keysOf("static", "prod-cp-1")).not.toEqual(keysOf("static", "prod-cp-2"));
  const endpoint = "https://discovery.example.org/";
  const text = (talos: string) =>
    writeConfig(
      configOf("prod-cp-1", source({ versions: { talos }, talos: { discovery: { endpoint } } })).documents,
    );
  expect(text("v1.13.9")).toContain(`endpoint: ${endpoint}`);
  expect(text("v1.14.0")).toContain(`name: default\nendpoint: ${endpoint}`);
});

test("all files are written, those of workers without a control plane's secrets", async () => {
  const files = new Map((await renderFiles({ ...source(), now: 0 })).map(({ path, text }) => [path, text]));
  expect([...files.keys()]).toEqual([
    "controlplane.yaml",
    "worker.yaml",
    ...["prod-cp-1", "prod-cp-2", "prod-cp-3", "prod-worker-1", "prod-worker-2"].map(
      (n) => `nodes/${n}.yaml`,
    ),
    "talosconfig",
    "kubeconfig",
    "talconfig.yaml",
  ]);
  for (const path of ["worker.yaml", "nodes/prod-worker-1.yaml"]) {
    expect(files.get(path)).not.toContain(Buffer.from(secrets.certs.os.key).toString("base64"));
  }
  expect(parse(files.get("talosconfig") ?? "")).toMatchObject({
    context: "prod",
    contexts: { prod: { endpoints: ["10.0.0.10", "10.0.0.11", "10.0.0.12"] } },
  });
  expect(parse(files.get("kubeconfig") ?? "")).toMatchObject({
    clusters: [{ cluster: { server: "https://10.0.0.9:6443" } }],
  });
  expect(files.get("talconfig.yaml")).not.toContain(secrets.cluster.secret);
});

test("talhelper's file says the same of every machine", async () => {
  const given = source(
    {
      network,
      pools,
      controlPlane: { patches: [{ file: "cp.yaml" }] },
      addons: { ccm: { talos: { enabled: false }, proxmox: { enabled: false } } },
    },
    { "cp.yaml": "machine: { env: { A: '${B} $C 1$' } }\n" },
  );
  const files = await renderFiles({ ...given, now: 0 });
  const file = parse(files.at(-1)?.text ?? "") as { nodes: unknown[] };
  expect(file).toMatchObject({
    clusterName: "prod",
    endpoint: "https://10.0.0.9:6443",
    cniConfig: { name: "none" },
    controlPlane: {
      // It is written to another folder, where talhelper would look for the files, and fills in variables.
      patches: ["machine: { env: { A: '$${B} $$C 1$' } }\n", "cluster:\n  proxy:\n    disabled: true\n"],
    },
  });
  expect(files.at(-1)?.text).not.toMatch(/[&*]a\d/);
  expect(file.nodes[0]).toMatchObject({
    hostname: "prod-cp-1",
    ipAddress: "10.0.0.10,fd00:1::a",
    controlPlane: true,
    machineSpec: { mode: "nocloud", arch: "amd64", secureboot: false },
    networkInterfaces: [{ addresses: ["10.0.0.10/24", "fd00:1::a/64"], vip: { ip: "10.0.0.9" } }],
  });
  expect(file.nodes[0]).not.toHaveProperty("patches");
  expect(file.nodes.at(-1)).toMatchObject({ controlPlane: false, nodeLabels: { tier: "web" } });
});

describe("what talhelper has no keys for is a patch in its file", () => {
  const controllers = (enabled: boolean) => ({ ccm: { talos: { enabled }, proxmox: { enabled } } });
  const mirrors = { "registry.example.org": ["https://cache.example.org"] };
  const talos = { kubespan: true, diskEncryption: "tpm", registries: { mirrors } };
  const endpoint = "https://discovery.example.org/";
  const ntp = ["time.example.org"];
  const plain = { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1" };
  const fileOf = (more: object) => {
    const given = source({
      image: { factory: "https://factory.example.org" },
      addons: controllers(false),
      ...more,
    });
    return { given, text: talconfig(given.cluster, given.machines, given.patches) };
  };
  const sorted = (documents: readonly ConfigDocument[]) =>
    documents.toSorted((a, b) =>
      JSON.stringify([a["kind"], a["name"]]) < JSON.stringify([b["kind"], b["name"]]) ? -1 : 1,
    );

  test.each(
    ["v1.11.3", "v1.12.3", "v1.13.9", "v1.14.0"].flatMap((version) => [
      [version, { enabled: true, endpoint }] as const,
      [version, { enabled: false }] as const,
    ]),
  )("of %s, with discovery %j", (version, discovery) => {
    const versions = { talos: version };
    const whole = fileOf({ versions, network: { ...plain, ntp }, talos: { ...talos, discovery } });
    const { patches, imageFactory } = parse(whole.text) as { patches: string[]; imageFactory: object };
    expect(imageFactory).toEqual({ registryURL: "factory.example.org", protocol: "https" });
    expect(patches).toHaveLength(1);
    const without = fileOf({ versions, network: plain }).given;
    const patched = applyPatches(
      configOf("prod-cp-1", without).documents,
      [{ source: "talconfig.yaml", text: patches[0] ?? "" }],
      "talhelper",
    );
    expect(sorted(patched.documents)).toEqual(sorted(configOf("prod-cp-1", whole.given).documents));
  });

  test.each(["v1.11.3", "v1.14.0"])("of %s, what cloud controllers need", (version) => {
    const versions = { talos: version };
    const own = [{ name: "worker", labels: { "topology.kubernetes.io/zone": "own" } }];
    const whole = fileOf({ versions, pools: own, addons: controllers(true) });
    type Patched = { patches?: string[] };
    const file = parse(whole.text) as Patched & { controlPlane: Patched; nodes: Patched[] };
    const without = fileOf({ versions, pools: own }).given;
    for (const [name, at, role] of [
      ["prod-cp-1", 0, file.controlPlane.patches?.slice(0, 1)],
      ["prod-worker-1", 3, []],
    ] as const) {
      const texts = [...(file.patches ?? []), ...(role ?? []), ...(file.nodes[at]?.patches ?? [])];
      const patches = texts.map((text) => ({ source: "talconfig.yaml", text }));
      const patched = applyPatches(configOf(name, without).documents, patches, "talhelper");
      expect(sorted(patched.documents)).toEqual(sorted(configOf(name, whole.given).documents));
    }
  });

  test("but for passphrases, which are secrets", () => {
    const { text } = fileOf({ talos: { diskEncryption: "static" } });
    expect(text).toMatch(/^# talos\.diskEncryption: static is not in this file/);
    expect(parse(text)).not.toHaveProperty("patches");
  });
});

const examples = resolve(import.meta.dirname, "../../../../examples/talos");
test.each(readdirSync(examples))("the example %s is valid and renders", async (file) => {
  const cluster = parseCluster(readFileSync(`${examples}/${file}`, "utf8"), file);
  const machines = machinesOf(cluster);
  const files = await renderFiles({ cluster, secrets, machines, patches: new Map(), now: 0 });
  expect(files).toHaveLength(machines.length + 5);
  for (const { path, text } of files) expect(parseConfig(text, path).length).toBeGreaterThan(0);
});

test("the examples have the addresses and VMIDs they speak of", () => {
  const of = (file: string) =>
    machinesOf(parseCluster(readFileSync(`${examples}/${file}`, "utf8"), file)).map(
      ({ name, vmid, addresses }) => `${name} ${vmid} ${addresses[0]}`,
    );
  expect(of("on-the-host.yaml")).toEqual([
    "talos-cp-1 101 192.168.1.101",
    "talos-cp-2 102 192.168.1.102",
    "talos-cp-3 103 192.168.1.103",
    "talos-worker-1 201 192.168.1.201",
    "talos-worker-2 202 192.168.1.202",
  ]);
  expect(of("three-machines.yaml")).toEqual([
    "talos-cp-1 2000 192.168.1.101",
    "talos-w-1 3000 192.168.1.102",
    "talos-w-2 3001 192.168.1.103",
  ]);
  expect(of("spread.yaml")[3]).toBe("prod-worker-1 3000 10.0.0.20");
});
