// Figures of nodes, guests and storages for those who collect them, under PVE's names. What nodes reported last is what
// is known here: there is no history to hand out.
import type { GuestRecord } from "@gpve/domain/guest/guest-record.ts";
import type { GuestRuntime, NodeReport, NodeView } from "@gpve/domain/node/runtime.ts";

export interface Metric {
  readonly id: string;
  readonly metric: string;
  /** Seconds since the epoch. */
  readonly timestamp: number;
  /** derive: a counter of which the change over time is of interest. */
  readonly type: "gauge" | "derive";
  readonly value: number;
}

type Values = Readonly<Record<string, number>>;

export function exportMetrics(
  views: readonly NodeView[],
  guests: readonly GuestRecord[],
  /** Only what is newer than that, in seconds. */
  since: number,
): readonly Metric[] {
  return views.flatMap(({ node, health, report, facts }) => {
    if (report === undefined || health !== "online") return [];
    const timestamp = Math.floor(report.at / 1_000);
    if (timestamp <= since) return [];
    const running = new Map(report.guests.map((guest) => [guest.vmid, guest]));
    const of = (id: string, gauges: Values, derives: Values = {}): readonly Metric[] => [
      ...Object.entries(gauges).map(
        ([metric, value]) => ({ id, metric, value, timestamp, type: "gauge" }) as const,
      ),
      ...Object.entries(derives).map(
        ([metric, value]) => ({ id, metric, value, timestamp, type: "derive" }) as const,
      ),
    ];
    return [
      ...of(`node/${node}`, nodeGauges(report, facts?.cpu.cpus ?? 0), {
        net_in: report.usage.netIn,
        net_out: report.usage.netOut,
      }),
      ...guests
        .filter((guest) => guest.node === node)
        .flatMap((guest) => {
          const runtime = running.get(guest.vmid);
          return of(`${guest.type}/${guest.vmid}`, guestGauges(guest, runtime), guestCounters(runtime));
        }),
      ...report.storages
        .filter(({ active }) => active)
        .flatMap(({ storage, totalBytes, usedBytes }) =>
          of(`storage/${node}/${storage}`, { disk_total: totalBytes, disk_used: usedBytes }),
        ),
    ];
  });
}

function nodeGauges({ usage }: NodeReport, cpus: number): Values {
  const [avg1, avg5, avg15] = usage.loadavg;
  return {
    uptime: Math.floor(usage.uptimeSeconds),
    cpu_avg1: avg1,
    cpu_avg5: avg5,
    cpu_avg15: avg15,
    cpu_max: cpus,
    cpu_current: usage.cpu,
    cpu_iowait: usage.wait,
    mem_total: usage.memory.total,
    mem_used: usage.memory.used,
    swap_total: usage.swap.total,
    swap_used: usage.swap.used,
    disk_total: usage.rootfs.total,
    disk_used: usage.rootfs.used,
  };
}

function guestGauges({ summary }: GuestRecord, runtime: GuestRuntime | undefined): Values {
  return {
    ...(runtime === undefined ? {} : { cpu_current: runtime.cpu, mem_used: runtime.mem }),
    uptime: runtime?.uptimeSeconds ?? 0,
    cpu_max: summary.cpus,
    mem_total: summary.maxmem,
    disk_total: summary.maxdisk,
  };
}

function guestCounters(runtime: GuestRuntime | undefined): Values {
  if (runtime === undefined) return {};
  return {
    disk_read: runtime.diskread,
    disk_write: runtime.diskwrite,
    net_in: runtime.netin,
    net_out: runtime.netout,
  };
}
