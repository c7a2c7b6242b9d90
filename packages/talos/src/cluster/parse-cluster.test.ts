import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";
import { parse, stringify } from "yaml";
import { describe, expect, test } from "vitest";
import { publishedClusterSchema } from "./cluster-schema.ts";
import { parseCluster } from "./parse-cluster.ts";

const minimal = `apiVersion: gpve.io/v1
kind: TalosCluster
metadata: { name: prod }
versions: { talos: v1.13.9 }
providers:
  - name: pve1
    type: pve-api
    endpoint: https://pve1:8006
    tokenRef: { env: PVE_TOKEN }
    nodes: [pve1]
    storage: { image: local, vm: local-lvm, efi: local-lvm, cloudinit: local-lvm }
network:
  nodeCIDR: 10.0.0.0/24
  gateway: 10.0.0.1
endpoint:
  vip: 10.0.0.9
`;

type Tree = { [key: string]: unknown };

/** The minimal file with other values at some places ("network.mtu"); undefined takes a key out. */
function withValues(values: Readonly<Record<string, unknown>>): string {
  const tree = parse(minimal) as Tree;
  for (const [path, value] of Object.entries(values)) {
    const keys = path.split(".");
    let at = tree;
    for (const key of keys.slice(0, -1)) at = (at[key] ??= {}) as Tree;
    const last = keys.at(-1) ?? "";
    if (value === undefined) delete at[last];
    else at[last] = value;
  }
  return stringify(tree);
}

const refused = (values: Readonly<Record<string, unknown>>): string => {
  try {
    parseCluster(withValues(values), "cluster.yaml");
  } catch (err) {
    return (err as Error).message;
  }
  return "accepted";
};

describe("a file that says only what it must", () => {
  const cluster = parseCluster(minimal, "cluster.yaml");

  test("gets the rest by default", () => {
    expect(cluster.versions).toEqual({ talos: "v1.13.9", kubernetes: "v1.36.3", contract: "v1.13" });
    expect(cluster.controlPlane).toMatchObject({
      count: 3,
      schedulable: false,
      machine: { cores: 4, memoryMiB: 8192, bios: "ovmf" },
    });
    expect(cluster.network).toMatchObject({
      bridge: "vmbr0",
      mtu: "auto",
      vlan: null,
      podCIDRs: ["10.244.0.0/16"],
      ipam: { controlPlaneOffset: 10, workerOffset: 20, probe: true },
    });
    expect(cluster.vmids).toEqual({ template: "9000-9099", controlPlane: "2000-2999", worker: "3000-3999" });
    expect(cluster.addons.cni.type).toBe("cilium");
    expect(cluster.protect).toEqual({ destroy: true, minWorkers: 1 });
  });

  test("gets no add-on that must be asked for, and no override", () => {
    expect(cluster.addons.csi).toEqual({ default: null });
    expect(cluster.addons.gitops).toEqual({});
    const text = withValues({ "nodes.prod-cp-1": { machine: { memoryMiB: 32768 } } });
    expect(parseCluster(text, "f").nodes["prod-cp-1"]?.machine).toEqual({ memoryMiB: 32768 });
  });

  test("is what the published schema takes as well", () => {
    const ajv = new Ajv2020({ strict: false });
    addFormats.default(ajv);
    const validate = ajv.compile(publishedClusterSchema());
    expect(validate(parse(minimal))).toBe(true);
    expect(validate({ ...(parse(minimal) as Tree), kind: "Cluster" })).toBe(false);
    const count = (value: unknown): boolean =>
      validate({ ...(parse(minimal) as Tree), controlPlane: { count: value } });
    // As the file says it before the environment is read.
    expect([count(3), count("${CP}"), count("${CP:-3}"), count("three"), count(-1)]).toEqual([
      true,
      true,
      true,
      false,
      false,
    ]);
    expect(publishedClusterSchema()["required"]).toEqual([
      "apiVersion",
      "kind",
      "metadata",
      "versions",
      "providers",
      "network",
      "endpoint",
    ]);
  });
});

test("versions may be written without their v; everybody reads them with it", () => {
  const text = minimal.replace("talos: v1.13.9", "talos: 1.13.9, kubernetes: 1.35.2");
  expect(parseCluster(text, "cluster.yaml").versions).toMatchObject({
    talos: "v1.13.9",
    kubernetes: "v1.35.2",
  });
});

test("a second document is not dropped without a word", () => {
  expect(() => parseCluster(`${minimal}---\n${minimal}`, "cluster.yaml")).toThrow(
    /^cluster\.yaml:\d+: holds more than one document; every cluster has a file of its own \[yaml-broken\]$/,
  );
});

test("a key that is there twice is named; what is written by reference is read", () => {
  expect(() =>
    parseCluster(minimal.replace("  gateway:", "  nodeCIDR: 10.1.0.0/24\n  gateway:"), "c.yaml"),
  ).toThrow(/^c\.yaml:\d+: nodeCIDR is there twice in one map; keep one of them \[yaml-broken\]$/);
  const text = `${minimal}pools:
  - { name: a, machine: &machine { cores: 3, memoryMiB: 4096 } }
  - { name: b, machine: { <<: *machine, cores: 5 } }
`;
  expect(parseCluster(text, "c.yaml").pools.map(({ machine }) => [machine.cores, machine.memoryMiB])).toEqual(
    [
      [3, 4096],
      [5, 4096],
    ],
  );
});

test("problems are told all at once, each with its line", () => {
  const text = minimal.replace("gateway: 10.0.0.1", "gatway: 10.0.0.1").replace("vip: 10.0.0.9", "vip: ten");
  expect(() => parseCluster(text, "cluster.yaml")).toThrow(
    [
      "cluster.yaml:12: network.gateway is missing [key-missing]",
      "cluster.yaml:14: network.gatway is not a key that is known here; did you mean gateway? [key-unknown]",
      "cluster.yaml:16: endpoint.vip must be an IP address; not ten [value-wrong]",
    ].join("\n"),
  );
});

test.each<[Readonly<Record<string, unknown>>, string]>([
  [{ kind: "Cluster" }, "kind must be TalosCluster"],
  [{ "metadata.name": "My Cluster" }, "metadata.name must be lower-case letters, digits and dashes"],
  [{ "versions.talos": "latest" }, "versions.talos must be a version like v1.13.9"],
  [
    { "versions.talos": "v1.10.2" },
    "versions.talos cannot be used: no machine configuration can be made for Talos v1.10.2",
  ],
  [{ "versions.contract": "v1.14" }, "versions.contract is newer than Talos v1.13.9"],
  [{ "versions.contract": "v1.9" }, "versions.contract cannot be used"],
  [
    { "versions.kubernetes": "v1.30.0" },
    "versions.kubernetes cannot be used: Talos v1.13 runs Kubernetes 1.31 to 1.36",
  ],
  [{ "controlPlane.count": 2 }, "controlPlane.count is 2: an even number"],
  [
    { "controlPlane.machine": { memoryMiB: "8G" } },
    "controlPlane.machine.memoryMiB must be a whole number in MiB and without a unit; not 8G (which is 8192 MiB) [unit-in-number]",
  ],
  [{ "controlPlane.machine": { diskGiB: "0.5 TiB" } }, "not 0.5 TiB (which is 512 GiB) [unit-in-number]"],
  [{ "controlPlane.machine": { diskGiB: "100 MB" } }, "without a unit; not 100 MB [unit-in-number]"],
  [{ "controlPlane.machine": { diskGiB: "80" } }, 'without a unit; not the text "80" [value-wrong]'],
  [
    { "controlPlane.machine": { memoryMiB: 8_589_934_592 } },
    "must be at most 16777216 MiB; not 8589934592 (which is 8192 MiB) [value-wrong]",
  ],
  [
    { "controlPlane.machine": { bios: "efi" } },
    "controlPlane.machine.bios must be one of ovmf, seabios; not efi",
  ],
  [{ "metadata.name": 5 }, "metadata.name must be text"],
  [{ "controlPlane.count": "3" }, 'controlPlane.count must be a whole number; not the text "3"'],
  [{ "controlPlane.count": 7 }, "controlPlane.count is 7: use 1, 3 or 5"],
  [{ "network.mtu": 99 }, "network.mtu must be auto, or a whole number from 1280 to 65520; not 99"],
  [{ "network.mtu": "big" }, "network.mtu must be auto, or a whole number from 1280 to 65520; not big"],
  [
    { "nodes.prod-cp-1": { mac: "01:00:5e:00:00:01" } },
    "nodes.prod-cp-1.mac must be the MAC address of one card, like BC:24:11:00:00:01; not 01:00:5e:00:00:01",
  ],
  [
    {
      "nodes.prod-cp-1": { mac: "BC:24:11:00:00:01" },
      "nodes.prod-cp-2": { mac: "bc:24:11:00:00:01" },
    },
    "nodes.prod-cp-2.mac is prod-cp-1's MAC address",
  ],
  [{ "network.dns": "10.0.0.1" }, "network.dns must be a list, in [ ]"],
  [{ "image.secureboot": "yes" }, "image.secureboot must be true or false"],
  [{ "network.vlan": "five" }, "network.vlan must be a whole number"],
  [{ "network.vlan": 5000 }, "network.vlan must be at most 4094; not 5000"],
  [
    { "network.gateway": "10.0.1.1" },
    "network.gateway is 10.0.1.1, outside the machines' network 10.0.0.0/24",
  ],
  [{ "network.nodeCIDR": "10.0.0.0" }, "network.nodeCIDR must be a network like 10.0.0.0/24"],
  [{ "network.nodeCIDR": "10.0.0.0/40" }, "network.nodeCIDR is no network: 10.0.0.0/40"],
  [
    { "network.nodeCIDR": "10.0.0.7/24" },
    "nodeCIDR is 10.0.0.7/24, an address in a network; the network is 10.0.0.0/24",
  ],
  [{ "network.nodeCIDR6": "fd00::7/64" }, "the network is fd00::/64 [network-invalid]"],
  [
    { "endpoint.vip": "10.0.0.0" },
    "vip is 10.0.0.0, the address of the network itself 10.0.0.0/24 [address-unusable]",
  ],
  [{ "endpoint.vip": "10.0.0.255" }, "vip is 10.0.0.255, the network's broadcast address"],
  [{ "nodes.prod-cp-1": { ip: "10.0.0.255" } }, "nodes.prod-cp-1.ip is 10.0.0.255, the network's"],
  [{ "providers.0.tls": { fingerprint: "AA:BB" } }, "fingerprint must be the SHA-256 of a certificate"],
  [
    { "network.podCIDRs": ["10.0.0.0/16"] },
    "network.podCIDRs.0 is 10.0.0.0/16 and overlaps network.nodeCIDR (10.0.0.0/24)",
  ],
  [
    { "network.serviceCIDRs": ["10.244.7.0/24"] },
    "network.serviceCIDRs.0 is 10.244.7.0/24 and overlaps network.podCIDRs.0",
  ],
  [
    { "network.nodeCIDR6": "fd00::/64", "network.podCIDRs": ["10.244.0.0/16", "fd00::/56"] },
    "network.podCIDRs.1 is fd00::/56 and overlaps network.nodeCIDR6",
  ],
  [{ "endpoint.vip": "10.0.1.9" }, "endpoint.vip is 10.0.1.9, outside the machines' network"],
  [{ "endpoint.vip": "10.0.0.1" }, "endpoint.vip is the gateway's address"],
  [{ "endpoint.vip": undefined }, "endpoint needs exactly one of vip, loadBalancer and dns"],
  [
    { "endpoint.dns": "k8s.example.org", "endpoint.loadBalancer": { address: "10.0.0.5" } },
    "endpoint needs exactly one of",
  ],
  [
    { "endpoint.vip": undefined, "endpoint.dns": "k8s", "endpoint.loadBalancer": { address: "10.0.0.5" } },
    "endpoint needs exactly one of",
  ],
  [{ "endpoint.dns": "10.0.0.8" }, "endpoint.dns is an address beside vip; it must be a name of it"],
  [{ "vmids.worker": "2500-3500" }, "vmids.worker overlaps vmids.controlPlane"],
  [{ "vmids.worker": "3999-3000" }, "vmids.worker ends before it begins"],
  [{ pools: [{ name: "a" }, { name: "a" }] }, "pools.1.name a is there twice"],
  [{ pools: [{ name: "cp" }] }, "pools.0.name cp is the name of the control planes"],
  [{ "nodes.prod-cp-4": {} }, "nodes.prod-cp-4 is no machine of this cluster"],
  [{ "nodes.prod-cp-1": { ip: "10.9.0.1" } }, "nodes.prod-cp-1.ip is 10.9.0.1, outside"],
  [{ "nodes.prod-cp-1": { machine: { ram: 1 } } }, "nodes.prod-cp-1.machine.ram is not a key"],
  [
    { "providers.0.endpoint": undefined },
    "providers.0.endpoint is missing: pve-api is reached over the network",
  ],
  [{ "providers.0.tokenRef": undefined }, "providers.0.tokenRef is missing: pve-api asks for a token"],
  [{ "providers.0.tokenRef": { env: "A", file: "b" } }, "tokenRef must say just one of env, file, sops, age"],
  [{ providers: [] }, "providers must have at least 1 entry [value-wrong]"],
  [{ "network.mtu": "9000" }, 'whole number from 1280 to 65520; not the text "9000"'],
  [{ "network.vlans": 5, "network.nameservers": [] }, "did you mean vlan? [key-unknown]"],
  [{ "network.nameservers": [] }, "network.nameservers is not a key that is known here; did you mean dns?"],
  [
    { "controlPlane.machine": { memory: 8192 } },
    "machine.memory is not a key that is known here; did you mean memoryMiB?",
  ],
  [{ "controlPlane.machine": { disk: "40G" } }, "did you mean diskGiB?"],
  [
    { "metadata.name": "a".repeat(41) },
    "metadata.name must be lower-case letters, digits and dashes, at most 40",
  ],
  [
    { "image.extensions": ["qemu-guest-agent"] },
    "image.extensions.0 is qemu-guest-agent; extensions are named with their owner: siderolabs/qemu-guest-agent",
  ],
  [
    { "network.podCIDRs": ["10.244.0.0/23"] },
    "a /24 for each of 2 machines; the cluster has 3, so use a /22 or larger [pod-network-size]",
  ],
  [{ "network.podCIDRs": ["10.244.0.0/28"] }, "a /24 for each of 0 machines"],
  [
    { "network.nodeCIDR6": "fd00::/64", "network.podCIDRs": ["10.244.0.0/16", "fd01::/40"] },
    "network.podCIDRs.1 is fd01::/40, too large; the largest is a /48",
  ],
  [
    { "network.ipam": { reserve: ["10.0.0.20-10.0.0.10"] } },
    "reserve.0 is 10.0.0.20-10.0.0.10, no range of addresses",
  ],
  [{ "network.ipam": { reserve: ["10.0.0.300"] } }, "reserve.0 must be an address, or a range like"],
  [{ "backup.etcd": { schedule: "every day" } }, 'schedule is "every day", no schedule: it has five fields'],
  [{ "image.factory": "here" }, "image.factory must be a URL"],
  [{ "versions.talos": 1.13 }, "versions.talos must be text, a version like v1.13.9; not 1.13"],
])("%j is refused", (values, message) => {
  expect(refused(values)).toContain(message);
});

test("what stands where a reference to a secret belongs is not shown", () => {
  const told = refused({ "providers.0.tokenRef": "root@pam!x=s3cret" });
  expect(told).toContain("providers.0.tokenRef must be a map");
  expect(told).not.toContain("s3cret");
});

test("what is no file of ours is refused", () => {
  expect(() => parseCluster("", "cluster.yaml")).toThrow(
    "cluster.yaml:1: the file must be a map of keys and values",
  );
  expect(() => parseCluster("a: [", "cluster.yaml")).toThrow(/^cluster\.yaml:1: no YAML/);
});

test("other ways to reach the API and other platforms are taken", () => {
  const accepted: readonly Readonly<Record<string, unknown>>[] = [
    { "endpoint.vip": undefined, "endpoint.dns": "k8s.example.org" },
    { "endpoint.dns": "k8s.example.org" },
    {
      "endpoint.vip": undefined,
      "endpoint.loadBalancer": { address: "10.0.0.5", backendsManaged: "haproxy" },
    },
    { "providers.0.type": "qm", "providers.0.endpoint": undefined, "providers.0.tokenRef": undefined },
    { "versions.contract": "v1.12" },
    {
      "network.podCIDRs": ["10.244.0.0/22"],
      "network.ipam": { reserve: ["10.0.0.5", "10.0.0.100-10.0.0.150"] },
    },
    { "network.nodeCIDR6": "fd00::/64", "network.podCIDRs": ["10.244.0.0/16", "fd01::/56"] },
    { "controlPlane.count": 1, "network.mtu": 9000, "network.vlan": 5 },
    { "nodes.prod-cp-3": { ip: "10.0.0.55", mac: null } },
  ];
  expect(accepted.map(refused)).toEqual(accepted.map(() => "accepted"));
});
