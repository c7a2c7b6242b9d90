// Statistics drawn as pictures.

export interface StatisticsGraph {
  /** As PVE names the archive: `pve2-vm/100`, `pve2-node/n1`, `pve2-storage/n1/local`. */
  readonly name: string;
  readonly title: string;
  /** The figures asked for, a list in PVE's way. */
  readonly ds: string;
  /** Every figure the archive has. */
  readonly sources: readonly string[];
  readonly rows: readonly Readonly<Record<string, number>>[];
}

/** A PNG. Throws on a figure the archive does not have. */
export type DrawGraph = (graph: StatisticsGraph) => Uint8Array;
