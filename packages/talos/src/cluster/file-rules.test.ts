// Mistakes in a file, by the ids that scripts match on. Nothing but the file is looked at.
import { mkdtempSync, renameSync, rmSync, mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { lockPath, readLock, writeLock } from "../folder/lock-file.ts";
import { testCluster } from "../testing/test-cluster.ts";
import type { Problem } from "./problem.ts";

const network = { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1" };
const front = (more: object) => ({
  endpoint: { loadBalancer: { address: "10.0.0.5", backendsManaged: "vm", ...more } },
});
const storage = { image: "a", vm: "a", efi: "a", cloudinit: "a" };
const qm = (name: string, nodes: readonly string[]) => ({ name, type: "qm", nodes, storage });
const addons = (values: object) => ({ addons: values });

test.each<[string, Readonly<Record<string, unknown>>]>([
  ["contract-newer", { versions: { talos: "v1.13.9", contract: "v1.14" } }],
  ["talos-version", { versions: { talos: "v1.10.2" } }],
  ["kubernetes-version", { versions: { talos: "v1.13.9", kubernetes: "v1.30.0" } }],
  ["control-planes-even", { controlPlane: { count: 4 } }],
  ["address-outside-network", { network: { ...network, gateway: "10.0.1.1" } }],
  ["vip-outside-network", { endpoint: { vip: "10.0.1.9" } }],
  ["address-twice", { endpoint: { vip: "10.0.0.1" } }],
  ["endpoint-ambiguous", { endpoint: {} }],
  ["network-invalid", { network: { ...network, podCIDRs: ["10.0.0.0/40"] } }],
  ["networks-overlap", { network: { ...network, podCIDRs: ["10.0.0.0/16"] } }],
  ["network-families", { network: { ...network, podCIDRs: ["10.244.0.0/16", "10.245.0.0/16"] } }],
  [
    "network-families",
    { network: { nodeCIDR: "fd00::/64", gateway: "fd00::1" }, endpoint: { vip: "fd00::9" } },
  ],
  ["pod-network-size", { network: { ...network, podCIDRs: ["10.244.0.0/24"] } }],
  ["name-too-long", { metadata: { name: "a".repeat(40) }, pools: [{ name: "b".repeat(30) }] }],
  ["address-outside-network", front({ address: "10.1.0.5" })],
  ["address-outside-network", front({ address: "lb.example.org" })],
  ["address-twice", front({ address: "10.0.0.1" })],
  ["vmid-twice", front({ vm: { vmid: 2005 } })],
  ["host-unknown", front({ vm: { host: "pve9" } })],
  ["vmid-ranges", { vmids: { worker: "2500-3500" } }],
  ["names-clash", { pools: [{ name: "cp" }] }],
  ["names-clash", { nodes: { "prod-cp-1": { hostname: "a" }, "prod-cp-2": { hostname: "a" } } }],
  ["names-clash", { nodes: { "prod-cp-1": { hostname: "prod-cp-2" } } }],
  ["storage-pool-diskless", { pools: [{ name: "store", role: "storage" }] }],
  ["node-unknown", { nodes: { "prod-cp-9": {} } }],
  ["host-unknown", { nodes: { "prod-cp-1": { host: "pve9" } } }],
  ["spread-impossible", { placement: { spread: "required" }, providers: [qm("pve", ["pve1"])] }],
  [
    "spread-impossible",
    {
      placement: { spread: "required" },
      nodes: { "prod-cp-1": { host: "pve1" }, "prod-cp-2": { host: "pve1" } },
    },
  ],
  ["spread-impossible", { placement: { spread: "required" }, providers: [qm("pve", ["a", "a", "b"])] }],
  ["addons-mismatch", addons({ cni: { type: "flannel" }, loadBalancer: { type: "cilium" } })],
  ["addons-mismatch", addons({ cni: { type: "flannel" }, ingress: { type: "gateway" } })],
  ["addons-mismatch", addons({ csi: { default: "ceph" } })],
  ["key-missing", addons({ csi: { nfs: {} } })],
  ["key-missing", addons({ csi: { nfs: { server: "nas", share: "" } } })],
  ["image-ambiguous", { image: { boot: "iso", archive: "a.raw.xz" } }],
  ["provider-incomplete", { providers: [{ ...qm("pve", ["pve1"]), type: "gpve" }] }],
])("%s", (id, values) => {
  let problems: readonly Problem[] = [];
  try {
    testCluster(values);
  } catch (err) {
    problems = (err as { data: { problems: readonly Problem[] } }).data.problems;
  }
  expect(problems.map((problem) => problem.id)).toContain(id);
});

test("a network of pods and gateways that are not ours are taken to do what they must", () => {
  const extra = [{ name: "envoy", manifest: "envoy.yaml" }];
  const taken = [
    { cni: { type: "none" }, loadBalancer: { type: "cilium" }, ingress: { type: "gateway" } },
    { cni: { type: "flannel" }, ingress: { type: "gateway" }, extra },
    { cni: { type: "flannel" }, ingress: { type: "gateway" }, gitops: { flux: { repo: "https://git/x" } } },
    { cni: { type: "flannel" }, loadBalancer: { type: "metallb" }, ingress: { type: "traefik" } },
    { csi: { nfs: { server: "nas", share: "/v" }, default: "nfs" } },
  ];
  for (const each of taken) expect(testCluster(addons(each)).metadata.name).toBe("prod");
});

test("lock-of-another: a lock that was put beside the wrong file", () => {
  const folder = mkdtempSync(join(tmpdir(), "gpve-talos-lock-"));
  writeLock(folder, readLock(folder, "dev"));
  mkdirSync(join(lockPath(folder, "prod"), ".."), { recursive: true });
  renameSync(lockPath(folder, "dev"), lockPath(folder, "prod"));
  const read = () => readLock(folder, "prod");
  expect(read).toThrow(
    expect.objectContaining({ data: expect.objectContaining({ finding: "lock-of-another" }) }),
  );
  rmSync(folder, { recursive: true });
});
