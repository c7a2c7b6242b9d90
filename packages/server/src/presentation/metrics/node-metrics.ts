// Figures of nodes, guests and storages, read from the board when someone scrapes: nothing is kept, so nothing
// outlives the node it was about. A node that is not online shows only that; its last report is no longer true.
import { nodeResources } from "@gpve/domain/node/node-resources.ts";
import { guestTypes } from "@gpve/domain/guest/guest-words.ts";
import { VM_TYPE } from "@gpve/domain/vm/vm-type.ts";
import type { GuestRuntime, NodeBoard, NodeView } from "@gpve/domain/node/runtime.ts";
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
    perNode(
      "gpve_node_allocatable_cpu_cores",
      "CPUs guests may use: without the reserve, times overcommit.",
      (view) => nodeResources(view, [])?.allocatable.cpu,
    ),
    perNode(
      "gpve_node_allocatable_memory_bytes",
      "Memory guests may use: without the reserve, times overcommit.",
      (view) => nodeResources(view, [])?.allocatable.memory,
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

/** Every VM there is, also those that do not run: 1 for the state it is in. */
export function vmStates(
  board: NodeBoard,
  guests: readonly {
    readonly value: { readonly vmid: number; readonly type: string; readonly node: string };
  }[],
): string {
  const running = new Set(
    board
      .list()
      .filter(({ health }) => health === "online")
      .flatMap(({ node, report }) =>
        (report?.guests ?? [])
          .filter(({ status }) => status === "running")
          .map(({ vmid }) => `${node}/${vmid}`),
      ),
  );
  const samples = guests
    .filter(({ value }) => value.type === VM_TYPE)
    .map(({ value: { vmid, node } }): Sample => {
      const online = board.get(node)?.health === "online";
      const state = !online ? "unknown" : running.has(`${node}/${vmid}`) ? "running" : "stopped";
      return [{ vmid, node, state }, 1];
    });
  return metricText("gpve_vm_state", "gauge", "1 for the state a VM is in.", samples);
}

function* present(views: readonly Online[], value: (view: Online) => number | undefined): Iterable<Sample> {
  for (const view of views) {
    const found = value(view);
    if (found !== undefined) yield [{ node: view.node }, found];
  }
}

function* guestCounts(views: readonly Online[]): Iterable<Sample> {
  for (const { node, report } of views) {
    for (const type of guestTypes) {
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
      .filter((guest) => guest.type === VM_TYPE && guest.status === "running")
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
    metricText(
      "gpve_vm_uptime_seconds",
      "gauge",
      "Time since a VM was started.",
      running.map(({ labels, guest }): Sample => [labels, guest.uptimeSeconds]),
    ),
    metricText(
      "gpve_vm_disk_read_bytes_total",
      "counter",
      "Bytes a VM has read from a disk since it was started.",
      byPart(
        running,
        "disk",
        (guest) => guest.drives,
        ({ read }) => read,
      ),
    ),
    metricText(
      "gpve_vm_disk_write_bytes_total",
      "counter",
      "Bytes a VM has written to a disk since it was started.",
      byPart(
        running,
        "disk",
        (guest) => guest.drives,
        ({ written }) => written,
      ),
    ),
    metricText(
      "gpve_vm_network_rx_bytes_total",
      "counter",
      "Bytes a VM has received through an interface since it was started.",
      byPart(
        running,
        "interface",
        (guest) => guest.nics,
        ({ netin }) => netin,
      ),
    ),
    metricText(
      "gpve_vm_network_tx_bytes_total",
      "counter",
      "Bytes a VM has sent through an interface since it was started.",
      byPart(
        running,
        "interface",
        (guest) => guest.nics,
        ({ netout }) => netout,
      ),
    ),
  ];
}

interface LabelledGuest {
  readonly labels: { readonly vmid: number; readonly node: string };
  readonly guest: GuestRuntime;
}

/** One sample per disk or interface of each guest. */
function byPart<T>(
  guests: readonly LabelledGuest[],
  label: "disk" | "interface",
  parts: (guest: GuestRuntime) => Readonly<Record<string, T>> | undefined,
  value: (part: T) => number,
): Sample[] {
  return guests.flatMap(({ labels, guest }) =>
    Object.entries(parts(guest) ?? {}).map(([name, part]): Sample => [
      { ...labels, [label]: name },
      value(part),
    ]),
  );
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
