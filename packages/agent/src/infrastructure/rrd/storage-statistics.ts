// One archive of size and use per storage.
import { join } from "node:path";
import type { StorageRuntime } from "@gpve/domain/node/runtime.ts";
import { RrdFile, type RrdConsolidation, type RrdRow, type RrdTimeframe } from "./rrd-file.ts";

export const storageSources = ["total", "used"].map((name) => ({ name, kind: "gauge" }) as const);

export class StorageStatisticsFiles {
  readonly #directory: string;
  readonly #archives = new Map<string, RrdFile>();

  constructor(directory: string) {
    this.#directory = directory;
  }

  sample(nowMs: number, storages: readonly StorageRuntime[]): void {
    for (const { storage, active, totalBytes, usedBytes } of storages) {
      if (active) this.#archive(storage).update(nowMs, { total: totalBytes, used: usedBytes });
    }
  }

  rows(storage: string, timeframe: RrdTimeframe, consolidation: RrdConsolidation, nowMs: number): RrdRow[] {
    return this.#archive(storage).rows(timeframe, consolidation, nowMs);
  }

  close(): void {
    for (const archive of this.#archives.values()) archive.close();
    this.#archives.clear();
  }

  /** Storage names have no slash, so they can be part of a file's name. */
  #archive(storage: string): RrdFile {
    const known = this.#archives.get(storage);
    if (known !== undefined) return known;
    const opened = RrdFile.open(join(this.#directory, `storage-${storage}.rrd`), storageSources);
    this.#archives.set(storage, opened);
    return opened;
  }
}
