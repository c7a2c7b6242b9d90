import { beforeAll, expect, test } from "vitest";
import { generateConfig } from "../config/generate-config.ts";
import { writeConfig } from "../config/config-text.ts";
import type { SecretsBundle } from "../secrets/bundle.ts";
import { testBundle } from "../testing/test-bundle.ts";
import { clusterInputs, installerImage } from "./cluster-inputs.ts";
import type { Cluster } from "./cluster.ts";
import { parseCluster } from "./parse-cluster.ts";

const AGENT = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
let secrets: SecretsBundle;

beforeAll(async () => {
  secrets = await testBundle();
});

function cluster(endpoint: string, more = ""): Cluster {
  return parseCluster(
    `apiVersion: gpve.io/v1
kind: TalosCluster
metadata: { name: prod }
versions: { talos: 1.13.9 }
providers:
  - name: here
    type: qm
    nodes: [pve1]
    storage: { image: local, vm: local-lvm, efi: local-lvm, cloudinit: local-lvm }
network: { nodeCIDR: 10.0.0.0/24, nodeCIDR6: "fd00::/64", gateway: 10.0.0.1 }
endpoint: ${endpoint}
${more}`,
    "cluster.yaml",
  );
}

test("the endpoint is one URL, however it is given, and a name of the certificates", () => {
  const endpoints = [
    ["{ vip: 10.0.0.9 }", "https://10.0.0.9:6443", "10.0.0.9"],
    ['{ vip: "fd00::9", port: 443 }', "https://[fd00::9]:443", "fd00::9"],
    ["{ loadBalancer: { address: lb.example.org } }", "https://lb.example.org:6443", "lb.example.org"],
    [
      "{ dns: k8s.example.org, extraSANs: [k8s.example.org, other] }",
      "https://k8s.example.org:6443",
      "k8s.example.org",
    ],
    ["{ vip: 10.0.0.9, dns: k8s.example.org }", "https://k8s.example.org:6443", "k8s.example.org"],
  ] as const;
  for (const [given, url, name] of endpoints) {
    const inputs = clusterInputs(cluster(given), secrets);
    expect(inputs.endpoint).toBe(url);
    expect(inputs.extraSans[0]).toBe(name);
    expect(new Set(inputs.extraSans).size).toBe(inputs.extraSans.length);
  }
});

test("a VIP with a name is an address of the machines and a name of the certificates", () => {
  const named = cluster("{ vip: 10.0.0.9, dns: k8s.example.org, extraSANs: [other] }");
  expect(clusterInputs(named, secrets).extraSans).toEqual(["k8s.example.org", "10.0.0.9", "other"]);
  const text = writeConfig(generateConfig("controlplane", clusterInputs(named, secrets)));
  expect(text).toMatch(/certSANs:\n +- k8s\.example\.org\n +- 10\.0\.0\.9\n +- other\n/);
  expect(text).toContain("endpoint: https://k8s.example.org:6443");
});

test("control planes carry work when there are no workers, or when told to", () => {
  const schedules = (more: string) =>
    clusterInputs(cluster("{ dns: k8s }", more), secrets).allowSchedulingOnControlPlanes;
  expect(schedules("")).toBe(true);
  expect(schedules("pools: [{ name: worker, count: 2 }]")).toBe(false);
  expect(schedules("pools: [{ name: worker, count: 2 }]\ncontrolPlane: { schedulable: true }")).toBe(true);
});

test("Cilium takes the place of Flannel and kube-proxy", () => {
  const config = (more: string) =>
    writeConfig(generateConfig("controlplane", clusterInputs(cluster("{ dns: k8s }", more), secrets)));
  expect(config("")).toMatch(/cni:\n {12}name: none[^]*proxy:\n {8}disabled: true/);
  expect(config("addons: { cni: { type: none } }")).not.toContain("disabled: true\n        image");
  expect(config("addons: { cni: { type: flannel } }")).not.toContain("cni:");
});

test("the installer is that of platform, schematic and version", () => {
  expect(installerImage(cluster("{ dns: k8s }"))).toBe(
    `factory.talos.dev/nocloud-installer/${AGENT}:v1.13.9`,
  );
  const own = cluster(
    "{ dns: k8s }",
    "image: { factory: 'https://factory.lan:8443', platform: metal, secureboot: true }",
  );
  expect(installerImage(own)).toBe(`factory.lan:8443/metal-installer-secureboot/${AGENT}:v1.13.9`);
  expect(installerImage(own, ["siderolabs/iscsi-tools"])).not.toContain(AGENT);
  expect(clusterInputs(own, secrets).installImage).toBe(installerImage(own));
});

test("mirrors, discovery and KubeSpan come from the file", () => {
  const inputs = clusterInputs(
    cluster(
      "{ dns: k8s }",
      "talos: { kubespan: true, discovery: { enabled: false }, registries: { mirrors: { docker.io: [https://cache.lan] } } }",
    ),
    secrets,
  );
  expect(inputs).toMatchObject({
    kubeSpan: true,
    discovery: false,
    registryMirrors: { "docker.io": ["https://cache.lan"] },
  });
  expect(clusterInputs(cluster("{ dns: k8s }"), secrets).kubeSpan).toBeUndefined();
});
