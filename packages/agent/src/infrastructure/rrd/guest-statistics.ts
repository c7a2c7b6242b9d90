// One archive of statistics per guest.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { GuestSummary } from "@gpve/domain/guest/guest-kind.ts";
import type { GuestRuntime } from "@gpve/domain/node/runtime.ts";
import {
  RrdFile,
  type RrdConsolidation,
  type RrdRow,
  type RrdSource,
  type RrdTimeframe,
} from "./rrd-file.ts";

export const guestSources: readonly RrdSource[] = [
  ...["maxcpu", "cpu", "maxmem", "mem", "memhost", "maxdisk", "disk"].map(
    (name) => ({ name, kind: "gauge" }) as const,
  ),
  ...["netin", "netout", "diskread", "diskwrite"].map((name) => ({ name, kind: "counter" }) as const),
];

export interface GuestSize {
  readonly vmid: number;
  readonly summary: Pick<GuestSummary, "cpus" | "maxmem" | "maxdisk">;
}

export class GuestStatisticsFiles {
  readonly #directory: string;
  readonly #archives = new Map<number, RrdFile>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** What a guest is given is kept while it is stopped, too; what it uses is then unknown. */
  sample(nowMs: number, running: readonly GuestRuntime[], guests: readonly GuestSize[]): void {
    const rows = new Map(running.map((row) => [row.vmid, row]));
    for (const { vmid, summary } of guests) {
      const { cpu, mem, memhost, netin, netout, diskread, diskwrite }: Partial<GuestRuntime> =
        rows.get(vmid) ?? {};
      this.#archive(vmid).update(nowMs, {
        maxcpu: summary.cpus,
        cpu,
        maxmem: summary.maxmem,
        mem,
        memhost,
        maxdisk: summary.maxdisk,
        disk: 0,
        netin,
        netout,
        diskread,
        diskwrite,
      });
    }
  }

  rows(vmid: number, timeframe: RrdTimeframe, consolidation: RrdConsolidation, nowMs: number): RrdRow[] {
    return this.#archive(vmid).rows(timeframe, consolidation, nowMs);
  }

  /** Archives of guests that are no more. */
  prune(exists: (vmid: number) => boolean): void {
    if (!existsSync(this.#directory)) return;
    for (const name of readdirSync(this.#directory)) {
      const vmid = Number(/^guest-(\d+)\.rrd$/.exec(name)?.[1]);
      if (Number.isNaN(vmid) || exists(vmid)) continue;
      this.#archives.get(vmid)?.close();
      this.#archives.delete(vmid);
      rmSync(join(this.#directory, name), { force: true });
    }
  }

  close(): void {
    for (const archive of this.#archives.values()) archive.close();
    this.#archives.clear();
  }

  #archive(vmid: number): RrdFile {
    const known = this.#archives.get(vmid);
    if (known !== undefined) return known;
    const opened = RrdFile.open(join(this.#directory, `guest-${vmid}.rrd`), guestSources);
    this.#archives.set(vmid, opened);
    return opened;
  }
}
