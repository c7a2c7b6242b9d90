// What QEMU counts for its guest: bytes of drives, and the memory figures that the guest's balloon driver reports.

export type DriveStatistics = Record<string, Record<string, number>>;

/** By drive of the configuration; nodes below a drive and devices that are none are left out. */
export function driveStatistics(rows: unknown): DriveStatistics {
  const found: DriveStatistics = {};
  for (const row of rows as readonly {
    device?: string;
    qdev?: string;
    "node-name"?: string;
    stats: Record<string, number>;
  }[]) {
    const name =
      row.device !== undefined && row.device !== "" ? row.device : (row.qdev ?? row["node-name"] ?? "");
    const drive = /(?:drive-)?((?:ide|sata|scsi|virtio|efidisk|tpmstate)\d+)/.exec(name)?.[1];
    if (drive !== undefined) found[drive] = row.stats;
  }
  return found;
}

const NAMES: Readonly<Record<string, string>> = {
  "stat-total-memory": "total_mem",
  "stat-free-memory": "free_mem",
  "stat-swap-in": "mem_swapped_in",
  "stat-swap-out": "mem_swapped_out",
  "stat-major-faults": "major_page_faults",
  "stat-minor-faults": "minor_page_faults",
};
/** The guest has not told: all bits set, which no number here can hold exactly. */
const UNKNOWN = 2 ** 64;

/** PVE's names for what `query-balloon` and the balloon's `guest-stats` say. */
export function balloonInfo(actual: number, maxmem: number, guestStats: unknown): Record<string, number> {
  const { stats = {}, "last-update": updated = 0 } = (guestStats ?? {}) as {
    stats?: Readonly<Record<string, number>>;
    "last-update"?: number;
  };
  const info: Record<string, number> = { actual, max_mem: maxmem };
  if (updated === 0) return info;
  for (const [name, shown] of Object.entries(NAMES)) {
    const value = stats[name];
    if (value !== undefined && value >= 0 && value < UNKNOWN) info[shown] = value;
  }
  return { ...info, last_update: updated };
}

/** Bytes that the guest itself counts; undefined as long as its balloon driver has not told. */
export function guestMemory(
  guestStats: unknown,
): { readonly used: number; readonly free: number } | undefined {
  const { free_mem: free, total_mem: total } = balloonInfo(0, 0, guestStats);
  return free === undefined || total === undefined ? undefined : { used: total - free, free };
}
