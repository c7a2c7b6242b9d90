import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { expect, test } from "vitest";
import { boardOf, oneCluster } from "./testing/cluster-report.ts";
import { vclusterMetrics } from "./vcluster-metrics.ts";

const clusters = [oneCluster, { value: { name: "new", tenant: "shop", node: "n1" } }];

test("a cluster's figures are those of the node that has it", () => {
  const lines = vclusterMetrics(boardOf("online"), clusters)
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"));
  const labels = 'vcluster="demo",tenant="shop"';
  expect(lines).toEqual([
    `gpve_vc_power_state{${labels},state="warm"} 1`,
    `gpve_vc_memory_bytes{${labels}} 5`,
    `gpve_vc_cpu_seconds_total{${labels}} 1.5`,
    `gpve_vc_wakes_total{${labels}} 2`,
    `gpve_vc_last_wake_seconds{${labels}} 0.062`,
    `gpve_vc_pod_count{${labels},namespace="default"} 3`,
    `gpve_vc_api_request_duration_seconds_bucket{${labels},verb="list",le="0.05"} 2`,
    `gpve_vc_api_request_duration_seconds_bucket{${labels},verb="list",le="1"} 4`,
    `gpve_vc_api_request_duration_seconds_bucket{${labels},verb="list",le="+Inf"} 4`,
    `gpve_vc_api_request_duration_seconds_sum{${labels},verb="list"} 0.25`,
    `gpve_vc_api_request_duration_seconds_count{${labels},verb="list"} 4`,
  ]);
});

test("a node that is away tells nothing", () => {
  expect(vclusterMetrics(boardOf("offline"), clusters)).toBe("");
});

test("of several replicas one that serves tells, also while the first one's node is away", () => {
  const views = new Map(
    ["n1", "n2", "n3"].map((node) => {
      const health = node === "n1" ? "offline" : "online";
      const power = node === "n3" ? "hot" : "cold";
      const report = { vclusters: [{ name: "trio", phase: "Running", power }] };
      return [node, { node, health, report } as unknown as NodeView];
    }),
  );
  const board = { get: (node: string) => views.get(node) } as unknown as NodeBoard;
  const nodes = [...views.keys()].map((node, slot) => ({ node, address: `192.0.2.${slot}`, slot }));
  const trio = { value: { name: "trio", tenant: "shop", node: "n1", spread: { network: 1, nodes } } };
  expect(vclusterMetrics(board, [trio])).toContain(
    'gpve_vc_power_state{vcluster="trio",tenant="shop",state="hot"} 1',
  );
});
