import { readFileSync } from "node:fs";
import type { GuestRuntime, NodeBoard, NodeFacts, NodeView } from "@gpve/domain/node/runtime.ts";
import { createMetrics } from "@gpve/kit/telemetry/metrics.ts";
import { describe, expect, test, vi } from "vitest";
import { boardWithCluster, oneCluster } from "./testing/cluster-report.ts";
import { vclusterMetrics } from "./vcluster-metrics.ts";
import { nodeMetrics, vmStates } from "./node-metrics.ts";
import { SchedulerFigures } from "../../application/scheduler/scheduler-figures.ts";

const guest = (vmid: number, given: Partial<GuestRuntime> = {}): GuestRuntime => ({
  vmid,
  type: "qemu",
  status: "running",
  uptimeSeconds: 1,
  cpu: 0.25,
  mem: 512,
  diskread: 0,
  diskwrite: 0,
  netin: 0,
  netout: 0,
  ...given,
});

const facts = { cpu: { cpus: 8 }, memoryBytes: 1000, gpus: [] as unknown } as NodeFacts;

function view(node: string, given: Partial<NodeView> = {}): NodeView {
  return {
    node,
    health: "online",
    address: "192.0.2.1",
    lastSeen: 1_700_000_000_000,
    nodeid: 1,
    certFingerprint: "",
    facts,
    report: {
      node,
      at: 0,
      agentVersion: "1",
      usage: {
        cpu: 0.5,
        wait: 0,
        loadavg: [1.5, 1, 1],
        memory: { total: 1000, used: 400, free: 600, available: 600 },
        swap: { total: 0, used: 0, free: 0 },
        rootfs: { total: 50, used: 20, free: 30, avail: 30 },
        uptimeSeconds: 77,
        netIn: 0,
        netOut: 0,
      },
      guests: [
        guest(100, {
          drives: { scsi0: { read: 11, written: 12 } },
          nics: { tap100i0: { netin: 13, netout: 14 } },
        }),
        guest(101, { status: "stopped" }),
        guest(102, { type: "lxc" }),
      ],
      storages: [
        { storage: "local", active: true, totalBytes: 9, usedBytes: 3, availBytes: 6 },
        { storage: "nfs", active: false, totalBytes: 0, usedBytes: 0, availBytes: 0 },
      ],
    },
    ...given,
  };
}

const board = (...views: NodeView[]): NodeBoard => ({
  list: () => views,
  get: (node) => views.find((each) => each.node === node),
  generation: () => 1,
});

describe("node metrics", () => {
  test("an online node shows its figures, its guests and its storages", () => {
    const shown = nodeMetrics(board(view("n1")));
    for (const line of [
      'gpve_node_online{node="n1"} 1',
      'gpve_node_last_seen_timestamp_seconds{node="n1"} 1700000000',
      'gpve_node_allocatable_cpu_cores{node="n1"} 32',
      'gpve_node_allocatable_memory_bytes{node="n1"} 1000',
      'gpve_node_cpu_usage_ratio{node="n1"} 0.5',
      'gpve_node_load1{node="n1"} 1.5',
      'gpve_node_guests{node="n1",type="qemu",status="running"} 1',
      'gpve_node_guests{node="n1",type="lxc",status="running"} 1',
      'gpve_vm_cpu_usage_ratio{vmid="100",node="n1"} 0.25',
      'gpve_vm_memory_usage_bytes{vmid="100",node="n1"} 512',
      'gpve_storage_used_bytes{node="n1",storage="local"} 3',
    ]) {
      expect(shown).toContain(`${line}\n`);
    }
    expect(shown).not.toContain('vmid="101"');
    expect(shown).not.toContain('storage="nfs"');
  });

  test("a node that is away shows that and nothing stale", () => {
    const shown = nodeMetrics(board(view("n1", { health: "offline" })));
    expect(shown).toContain('gpve_node_online{node="n1"} 0');
    expect(shown).not.toContain("gpve_node_load1");
    expect(shown).not.toContain("gpve_vm_");
  });

  test("a node without facts has no CPU count", () => {
    expect(nodeMetrics(board(view("n1", { facts: undefined })))).not.toContain("cpu_cores");
  });

  test("an empty board shows nothing", () => expect(nodeMetrics(board())).toBe(""));

  test("a scrape of 20 000 guests stays quick", () => {
    const guests = Array.from({ length: 20_000 }, (_, index) => guest(100 + index));
    const base = view("n1");
    const big = { ...base, report: { ...base.report, guests } as NodeView["report"] };
    const start = process.cpuUsage().user / 1000;
    expect(nodeMetrics(board(big)).length).toBeGreaterThan(1_000_000);
    expect(process.cpuUsage().user / 1000 - start).toBeLessThan(2_000);
  });
});

test("traffic is counted by disk and by interface, and every VM shows its state", () => {
  const text = nodeMetrics(board(view("n1")));
  expect(text).toContain('gpve_vm_disk_read_bytes_total{vmid="100",node="n1",disk="scsi0"} 11');
  expect(text).toContain('gpve_vm_disk_write_bytes_total{vmid="100",node="n1",disk="scsi0"} 12');
  expect(text).toContain('gpve_vm_network_rx_bytes_total{vmid="100",node="n1",interface="tap100i0"} 13');
  expect(text).toContain('gpve_vm_network_tx_bytes_total{vmid="100",node="n1",interface="tap100i0"} 14');
  const states = vmStates(board(view("n1"), view("n2", { health: "offline" })), [
    { value: { vmid: 100, type: "qemu", node: "n1" } },
    { value: { vmid: 101, type: "qemu", node: "n1" } },
    { value: { vmid: 102, type: "lxc", node: "n1" } },
    { value: { vmid: 103, type: "qemu", node: "n2" } },
  ]);
  expect(states).toContain('gpve_vm_state{vmid="100",node="n1",state="running"} 1');
  expect(states).toContain('gpve_vm_state{vmid="101",node="n1",state="stopped"} 1');
  expect(states).toContain('gpve_vm_state{vmid="103",node="n2",state="unknown"} 1');
  expect(states).not.toContain('vmid="102"');
});

test("the reference page lists exactly the metrics that are shown, with type and labels", async () => {
  const metrics = createMetrics({ version: "1" });
  metrics.addCollector(() => nodeMetrics(board(view("n1"))));
  metrics.addCollector(() =>
    vmStates(board(view("n1")), [{ value: { vmid: 100, type: "qemu", node: "n1" } }]),
  );
  metrics.observeRequest("GET", "/x", 200, 1);
  metrics.observeStore("txn", true, 1);
  metrics.countTasks({ kind: "ended", operation: { type: "qmstart", state: "done", warnings: 0 } });
  metrics.watchQueue("server", () => 1);
  const figures = new SchedulerFigures();
  figures.count("scheduled", 1);
  metrics.addCollector(() => figures.text());
  metrics.addCollector(() => vclusterMetrics(boardWithCluster, [oneCluster]));
  const page = readFileSync(new URL("../../../../../docs/reference/metrics.md", import.meta.url), "utf8");
  const documented = [...page.matchAll(/^\| `(\w+)` +\| (\w+) +\| ([\w, ]*?) *\|/gm)].map(
    ([, name, type, labels]) => `${name} ${type} ${labels ?? ""}`.trim(),
  );
  // What the event loop lags behind is there when it was looked at once.
  await vi.waitFor(async () => expect(rowsOf(await metrics.render())).toEqual(documented.toSorted()), {
    timeout: 30_000,
  });
  metrics.close();
});

function rowsOf(text: string): string[] {
  const samples = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)]
    .map(([, name = "", type = ""]) => {
      const sampleName = type === "histogram" ? `${name}_sum` : name;
      const sample = samples.find((line) => line.startsWith(`${sampleName}{`)) ?? "";
      const labels = [...sample.matchAll(/(\w+)="(?:[^"\\]|\\.)*"/g)].map(([, label]) => label);
      return `${name} ${type} ${labels.join(", ")}`.trim();
    })
    .toSorted();
}
