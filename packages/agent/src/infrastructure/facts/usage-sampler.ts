// Live figures of the host: cheap reads of /proc, shares computed between two samples.
import type { NodeUsage } from "@gpve/domain/node/runtime.ts";
import type { HostFiles } from "./host-files.ts";
import {
  cpuShares,
  parseCpuTimes,
  parseLoadavg,
  parseMeminfo,
  parseNetDev,
  parseUptime,
  type CpuTimes,
} from "./proc-usage.ts";
import type { Clock } from "@gpve/kit/clock.ts";

/** Closer readings share one result: at 100 ticks a second, shares of less would be noise. */
const MIN_GAP_MS = 1_000;

export class UsageSampler {
  readonly #files: HostFiles;
  readonly #clock: Clock;
  #times: CpuTimes | undefined;
  #shares = { cpu: 0, wait: 0 };
  #sharesAt = Number.NEGATIVE_INFINITY;

  constructor(deps: { files: HostFiles; clock: Clock }) {
    this.#files = deps.files;
    this.#clock = deps.clock;
  }

  async sample(): Promise<NodeUsage> {
    const read = async (path: string): Promise<string> => (await this.#files.read(path)) ?? "";
    const [stat, meminfo, loadavg, uptime, net, space] = await Promise.all([
      read("/proc/stat"),
      read("/proc/meminfo"),
      read("/proc/loadavg"),
      read("/proc/uptime"),
      read("/proc/net/dev"),
      this.#files.space("/"),
    ]);
    this.#measure(parseCpuTimes(stat));
    const { received, sent } = parseNetDev(net);
    return {
      ...this.#shares,
      loadavg: parseLoadavg(loadavg),
      ...parseMeminfo(meminfo),
      rootfs: { total: space.total, used: space.total - space.free, free: space.free, avail: space.avail },
      uptimeSeconds: parseUptime(uptime),
      netIn: received,
      netOut: sent,
    };
  }

  #measure(times: CpuTimes): void {
    const now = this.#clock.monotonic();
    if (now - this.#sharesAt < MIN_GAP_MS) return;
    // The first reading has nothing to compare with: it gives the average since boot.
    this.#shares = cpuShares(this.#times ?? { total: 0, idle: 0, iowait: 0 }, times);
    this.#times = times;
    this.#sharesAt = now;
  }
}
