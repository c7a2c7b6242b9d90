import { describe, expect, test } from "vitest";
import type { AppError } from "@gpve/contracts/errors.ts";
import { readVirtualClusterSpec, requireNewCluster } from "./vcluster-spec.ts";

const pool = (more: object) => ({ workerNodes: { pools: [{ name: "a", ...more }] } });
const oidc = (issuerUrl: string) => ({ controlPlane: { oidc: { issuerUrl, clientId: "kube" } } });
const long = (count: number): string => Array.from({ length: count }, () => "a".repeat(59)).join(".");
const dedicated = { key: "example.com/dedicated", value: "x" };

describe("what Kubernetes does not take", () => {
  test.each([
    [{ networking: { podCIDR: "010.1.0.0/16" } }, "networking.podCIDR", "say 10.1.0.0/16"],
    [{ networking: { serviceCIDR: "10.96.0.0/016" } }, "networking.serviceCIDR", "is no IPv4 network"],
    [{ networking: { serviceCIDR: "10.096.0.0/16" } }, "networking.serviceCIDR", "say 10.96.0.0/16"],
    [{ networking: { podCIDR: "44.0.0.0/7" } }, "networking.podCIDR", "larger than a /8"],
    [{ networking: { dnsDomain: `${"a".repeat(64)}.local` } }, "networking.dnsDomain", "63 between two dots"],
    [{ networking: { dnsDomain: long(3) } }, "networking.dnsDomain", "more than 121 characters"],
    [oidc("https://kubernetes.default.svc.cluster.local"), "controlPlane.oidc.issuerUrl", "name another"],
    [pool({ labels: { "a..b/disk": "fast" } }), "workerNodes.pools[0].labels", "'a..b' before the /"],
    [pool({ labels: { "a-.b/disk": "fast" } }), "workerNodes.pools[0].labels", "is no domain"],
    [pool({ taints: [{ key: "a..b/c" }] }), "workerNodes.pools[0].taints", "is no domain"],
    [pool({ taints: [dedicated, { ...dedicated, value: "y" }] }), "workerNodes.pools[0].taints", "twice"],
    [
      pool({ taints: [{ key: "node.kubernetes.io/not-ready" }] }),
      "workerNodes.pools[0].taints",
      "by Kubernetes",
    ],
  ])("is refused of a new cluster: %j", (said, field, why) => {
    const make = (): void => requireNewCluster(readVirtualClusterSpec(said));
    expect(make).toThrow(why);
    try {
      make();
    } catch (err) {
      expect(Object.keys((err as AppError).errors ?? {})).toEqual([`spec.${field}`]);
    }
  });

  test.each([
    {},
    { networking: { podCIDR: "10.0.0.0/9", serviceCIDR: "172.16.0.0/12", dnsDomain: long(2) } },
    pool({
      labels: { "example.com/disk": "fast" },
      taints: [dedicated, { ...dedicated, effect: "NoExecute" }],
    }),
    oidc("https://login.example.com"),
  ])("is nothing of what is usual: %j", (said) => {
    expect(() => requireNewCluster(readVirtualClusterSpec(said))).not.toThrow();
  });
});
