// What lvs says of a volume group, as we ask for it.
export interface LogicalVolume {
  readonly name: string;
  readonly size: number;
  /** First letter of its attributes: V thin volume, t thin pool. */
  readonly kind: string;
  readonly isActive: boolean;
  /** The thin pool it takes its space from. */
  readonly pool: string;
  /** Bytes of a thin volume that are written, or of a pool that are taken. */
  readonly used: number;
  /** Seconds since 1970. */
  readonly ctime: number;
}

export const LVS_ARGS: readonly string[] = [
  "--reportformat",
  "json",
  "--units",
  "b",
  "--nosuffix",
  "--config",
  'report/time_format="%s"',
  "--options",
  "lv_name,lv_size,lv_attr,pool_lv,data_percent,lv_time",
];

const KIND = 0;
const STATE = 4;

export function parseLvs(stdout: string): LogicalVolume[] {
  const { report = [] } = JSON.parse(stdout) as { report?: { lv?: Record<string, string>[] }[] };
  return report
    .flatMap(({ lv = [] }) => lv)
    .map((row) => {
      const size = Number(row["lv_size"] ?? 0);
      const attributes = row["lv_attr"] ?? "";
      return {
        name: row["lv_name"] ?? "",
        size,
        kind: attributes.charAt(KIND),
        isActive: attributes.charAt(STATE) === "a",
        pool: row["pool_lv"] ?? "",
        used: Math.round((size * Number(row["data_percent"] ?? 0)) / 100),
        ctime: Number(row["lv_time"] ?? 0),
      };
    });
}
