// Figures of virtual clusters, as their nodes told them last. A node that is away shows none of its own.
import type { NodeBoard } from "@gpve/domain/node/runtime.ts";
import { keyOf, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import { answeringNode } from "../../application/vcluster/replicas/replica-nodes.ts";
import { runtimeIn, type VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { histogramText, metricText, type Sample } from "@gpve/kit/telemetry/exposition.ts";

type Row = VirtualClusterRuntime & {
  readonly labels: { readonly vcluster: string; readonly tenant: string };
};

export function vclusterMetrics(
  board: NodeBoard,
  clusters: readonly {
    readonly value: Pick<VirtualClusterRecord, "name" | "key" | "tenant" | "node" | "spread">;
  }[],
): string {
  const rows = clusters.flatMap(({ value }): Row[] => {
    const { name, tenant } = value;
    // Of several replicas each tells what it has answered itself: one that serves stands for all.
    const view = board.get(answeringNode(board, value));
    const found = runtimeIn(view?.report?.vclusters, keyOf(value));
    return view?.health !== "online" || found === undefined
      ? []
      : [{ ...found, labels: { vcluster: name, tenant } }];
  });
  const each = (value: (row: Row) => number | undefined): Sample[] =>
    rows.flatMap((row) => {
      const found = value(row);
      return found === undefined ? [] : [[row.labels, found] as const];
    });
  return [
    metricText(
      "gpve_vc_power_state",
      "gauge",
      "1 for the state that a virtual cluster's control plane is in.",
      rows.map(({ labels, power }): Sample => [{ ...labels, state: power }, 1]),
    ),
    metricText(
      "gpve_vc_memory_bytes",
      "gauge",
      "Memory of a control plane, without page cache.",
      each(({ memoryBytes }) => memoryBytes),
    ),
    metricText(
      "gpve_vc_cpu_seconds_total",
      "counter",
      "CPU time of a control plane since it was started.",
      each(({ cpuSeconds }) => cpuSeconds),
    ),
    metricText(
      "gpve_vc_wakes_total",
      "counter",
      "Wakes since the agent started.",
      each(({ wakes }) => wakes),
    ),
    metricText(
      "gpve_vc_last_wake_seconds",
      "gauge",
      "How long the last wake took.",
      each(({ lastWakeMs }) => (lastWakeMs === undefined ? undefined : lastWakeMs / 1_000)),
    ),
    metricText(
      "gpve_vc_pod_count",
      "gauge",
      "Pods by namespace, when it was last awake.",
      rows.flatMap(({ labels, pods = {} }) =>
        Object.entries(pods).map(([namespace, count]): Sample => [{ ...labels, namespace }, count]),
      ),
    ),
    histogramText(
      "gpve_vc_api_request_duration_seconds",
      "Time that requests to its API took, by verb; of one that sleeps for five minutes more.",
      rows.flatMap(({ labels, requests = {} }) =>
        Object.entries(requests).map(
          ([verb, { count, seconds: sum, buckets = {} }]) =>
            [
              { ...labels, verb },
              { count, sum, buckets },
            ] as const,
        ),
      ),
    ),
  ].join("");
}
