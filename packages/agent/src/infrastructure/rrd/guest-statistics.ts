// One archive of statistics per guest.
import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
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
  readonly cpus: number;
  readonly maxmem: number;
  readonly maxdisk: number;
}

export class GuestStatisticsFiles {
  readonly #directory: string;
  readonly #archives = new Map<number, RrdFile>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  sample(nowMs: number, guests: readonly GuestRuntime[], sizeOf: (vmid: number) => GuestSize): void {
    for (const guest of guests) {
      const { cpus, maxmem, maxdisk } = sizeOf(guest.vmid);
      const { cpu, mem, memhost, netin, netout, diskread, diskwrite } = guest;
      this.#archive(guest.vmid).update(nowMs, {
        maxcpu: cpus,
        cpu,
        maxmem,
        mem,
        memhost,
        maxdisk,
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
