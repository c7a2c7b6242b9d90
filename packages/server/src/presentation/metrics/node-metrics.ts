// Figures of nodes, guests and storages, read from the board when someone scrapes: nothing is kept, so nothing
// outlives the node it was about. A node that is not online shows only that; its last report is no longer true.
import type { NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
import { metricText, type Sample } from "@gpve/kit/telemetry/exposition.ts";

type Online = NodeView & { readonly report: NonNullable<NodeView["report"]> };

export function nodeMetrics(board: NodeBoard): string {
  const nodes = board.list();
  const online = nodes.filter(
    (view): view is Online => view.health === "online" && view.report !== undefined,
  );
  const perNode = (name: string, help: string, value: (view: Online) => number | undefined): string =>
    metricText(name, "gauge", help, present(online, value));
  return [
    metricText(
      "gpve_node_online",
      "gauge",
      "1 when the node reports, 0 when it does not.",
      nodes.map(({ node, health }): Sample => [{ node }, health === "online" ? 1 : 0]),
    ),
    metricText(
      "gpve_node_last_seen_timestamp_seconds",
      "gauge",
      "When the node last reported.",
      nodes.map(({ node, lastSeen }): Sample => [{ node }, lastSeen / 1e3]),
    ),
    perNode("gpve_node_allocatable_cpu_cores", "CPUs guests may use.", (view) => view.facts?.cpu.cpus),
    perNode(
      "gpve_node_allocatable_memory_bytes",
      "Memory guests may use.",
      ({ report }) => report.usage.memory.total,
    ),
    perNode("gpve_node_cpu_usage_ratio", "Share of all CPUs in use.", ({ report }) => report.usage.cpu),
    perNode("gpve_node_load1", "Load average over one minute.", ({ report }) => report.usage.loadavg[0]),
    perNode("gpve_node_memory_used_bytes", "Memory in use.", ({ report }) => report.usage.memory.used),
    perNode(
      "gpve_node_rootfs_used_bytes",
      "Root file system in use.",
      ({ report }) => report.usage.rootfs.used,
    ),
    perNode(
      "gpve_node_rootfs_size_bytes",
      "Size of the root file system.",
      ({ report }) => report.usage.rootfs.total,
    ),
    perNode(
      "gpve_node_uptime_seconds",
      "Time since the node booted.",
      ({ report }) => report.usage.uptimeSeconds,
    ),
    metricText("gpve_node_guests", "gauge", "Guests of a node by type and status.", guestCounts(online)),
    ...guestMetrics(online),
    ...storageMetrics(online),
  ].join("");
}

function* present(views: readonly Online[], value: (view: Online) => number | undefined): Iterable<Sample> {
  for (const view of views) {
    const found = value(view);
    if (found !== undefined) yield [{ node: view.node }, found];
  }
}

function* guestCounts(views: readonly Online[]): Iterable<Sample> {
  for (const { node, report } of views) {
    for (const type of ["qemu", "lxc"] as const) {
      for (const status of ["running", "stopped"] as const) {
        const count = report.guests.filter((guest) => guest.type === type && guest.status === status).length;
        yield [{ node, type, status }, count];
      }
    }
  }
}

function guestMetrics(views: readonly Online[]): string[] {
  const running = views.flatMap(({ node, report }) =>
    report.guests
      .filter((guest) => guest.type === "qemu" && guest.status === "running")
      .map((guest) => ({ labels: { vmid: guest.vmid, node }, guest })),
  );
  return [
    metricText(
      "gpve_vm_cpu_usage_ratio",
      "gauge",
      "Share of a VM's CPUs in use.",
      running.map(({ labels, guest }): Sample => [labels, guest.cpu]),
    ),
    metricText(
      "gpve_vm_memory_usage_bytes",
      "gauge",
      "Memory a VM uses.",
      running.map(({ labels, guest }): Sample => [labels, guest.mem]),
    ),
  ];
}

function storageMetrics(views: readonly Online[]): string[] {
  const active = views.flatMap(({ node, report }) =>
    report.storages
      .filter((storage) => storage.active)
      .map((storage) => ({ labels: { node, storage: storage.storage }, storage })),
  );
  return [
    metricText(
      "gpve_storage_size_bytes",
      "gauge",
      "Size of a storage as a node sees it.",
      active.map(({ labels, storage }): Sample => [labels, storage.totalBytes]),
    ),
    metricText(
      "gpve_storage_used_bytes",
      "gauge",
      "Used part of a storage.",
      active.map(({ labels, storage }): Sample => [labels, storage.usedBytes]),
    ),
  ];
}
