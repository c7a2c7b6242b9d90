// The node's own statistics: which figures are kept, and the loop that feeds them.
import type { NodeUsage } from "@gpve/domain/node/runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { HostFiles } from "../facts/host-files.ts";
import { parsePressure } from "../facts/proc-usage.ts";
import type { RrdFile, RrdSource } from "./rrd-file.ts";

export const SAMPLE_EVERY_MS = 10_000;

const gauge = (name: string): RrdSource => ({ name, kind: "gauge" });
const counter = (name: string): RrdSource => ({ name, kind: "counter" });

export const nodeSources: readonly RrdSource[] = [
  ...[
    "loadavg",
    "maxcpu",
    "cpu",
    "iowait",
    "memtotal",
    "memused",
    "memavailable",
    "swaptotal",
    "swapused",
  ].map(gauge),
  ...["roottotal", "rootused"].map(gauge),
  ...["netin", "netout"].map(counter),
  ...["pressurecpusome", "pressureiosome", "pressureiofull", "pressurememorysome", "pressurememoryfull"].map(
    gauge,
  ),
];

export function nodeValues(
  usage: NodeUsage,
  cpus: number,
  pressure: { cpu?: string | undefined; io?: string | undefined; memory?: string | undefined } = {},
): Readonly<Record<string, number | undefined>> {
  return {
    loadavg: usage.loadavg[0],
    maxcpu: cpus,
    cpu: usage.cpu,
    iowait: usage.wait,
    memtotal: usage.memory.total,
    memused: usage.memory.used,
    memavailable: usage.memory.available,
    swaptotal: usage.swap.total,
    swapused: usage.swap.used,
    roottotal: usage.rootfs.total,
    rootused: usage.rootfs.used,
    netin: usage.netIn,
    netout: usage.netOut,
    pressurecpusome: parsePressure(pressure.cpu, "some"),
    pressureiosome: parsePressure(pressure.io, "some"),
    pressureiofull: parsePressure(pressure.io, "full"),
    pressurememorysome: parsePressure(pressure.memory, "some"),
    pressurememoryfull: parsePressure(pressure.memory, "full"),
  };
}

export interface StatisticsDeps {
  readonly archive: RrdFile;
  readonly usage: () => Promise<NodeUsage>;
  readonly cpus: () => number;
  readonly files: HostFiles;
  readonly clock: Clock;
  readonly onError: (err: unknown) => void;
}

/** Samples until the signal fires. */
export async function keepNodeStatistics(deps: StatisticsDeps, signal: AbortSignal): Promise<void> {
  await every(SAMPLE_EVERY_MS, { clock: deps.clock, signal }, async () => {
    try {
      const pressure = {
        cpu: await deps.files.read("/proc/pressure/cpu"),
        io: await deps.files.read("/proc/pressure/io"),
        memory: await deps.files.read("/proc/pressure/memory"),
      };
      deps.archive.update(deps.clock.now(), nodeValues(await deps.usage(), deps.cpus(), pressure));
    } catch (err) {
      deps.onError(err);
    }
  });
}
