import { expect, test } from "vitest";
import { guestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { NodeView } from "@gpve/domain/node/runtime.ts";
import { methodByKey } from "@gpve/domain/schema/method-table.ts";
import { shapeProblems } from "@gpve/kit/testing/response-shape.ts";
import { exportMetrics } from "./export-metrics.ts";

const figures = { total: 100, used: 40, free: 60 };
const view = {
  node: "n1",
  health: "online",
  facts: { cpu: { cpus: 4 } },
  report: {
    at: 1_700_000_000_500,
    usage: {
      cpu: 0.5,
      wait: 0.01,
      loadavg: [1, 2, 3],
      memory: { ...figures, available: 60 },
      swap: figures,
      rootfs: { ...figures, avail: 55 },
      uptimeSeconds: 77.9,
      netIn: 11,
      netOut: 12,
    },
    guests: [
      {
        vmid: 100,
        type: "qemu",
        status: "running",
        uptimeSeconds: 5,
        cpu: 0.25,
        mem: 7,
        diskread: 1,
        diskwrite: 2,
        netin: 3,
        netout: 4,
      },
    ],
    storages: [
      { storage: "local", active: true, totalBytes: 9, usedBytes: 8, availBytes: 1 },
      { storage: "away", active: false, totalBytes: 0, usedBytes: 0, availBytes: 0 },
    ],
  },
} as unknown as NodeView;
const guest = (vmid: number, node: string) =>
  guestRecord({ vmid, type: "qemu", node, conf: "cores: 2\nmemory: 512\n" });
const guests = [guest(100, "n1"), guest(101, "n1"), guest(102, "n2")];
const texts = (views: readonly NodeView[], since = 0): string[] =>
  exportMetrics(views, guests, since).map(
    ({ id, metric, type, value }) => `${id} ${metric} ${type} ${value}`,
  );

test("hands out what nodes, their guests and storages reported last, in PVE's shape", () => {
  const data = exportMetrics([view], guests, 0);
  expect(shapeProblems(methodByKey("GET /cluster/metrics/export")?.returns ?? {}, { data })).toEqual([]);
  expect(new Set(data.map(({ timestamp }) => timestamp))).toEqual(new Set([1_700_000_000]));
  expect(new Set(data.map(({ id }) => id))).toEqual(
    new Set(["node/n1", "qemu/100", "qemu/101", "storage/n1/local"]),
  );
  expect(texts([view])).toEqual(
    expect.arrayContaining([
      "node/n1 uptime gauge 77",
      "node/n1 cpu_max gauge 4",
      "node/n1 cpu_avg15 gauge 3",
      "node/n1 net_in derive 11",
      "node/n1 disk_used gauge 40",
      "qemu/100 cpu_current gauge 0.25",
      "qemu/100 net_out derive 4",
      "qemu/101 uptime gauge 0",
      "qemu/101 mem_total gauge 536870912",
      "storage/n1/local disk_total gauge 9",
    ]),
  );
  expect(texts([view]).filter((line) => line.startsWith("qemu/101"))).toHaveLength(4);
});

test("leaves out what is not newer than asked, and nodes that are away or silent", () => {
  expect(texts([view], 1_700_000_000)).toEqual([]);
  expect(texts([view], 1_699_999_999)).not.toEqual([]);
  expect(
    texts([
      { ...view, health: "offline" },
      { ...view, report: undefined },
    ]),
  ).toEqual([]);
});
