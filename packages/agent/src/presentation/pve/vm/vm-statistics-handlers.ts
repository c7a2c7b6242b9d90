// The statistics of one VM.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";

export interface VmStatisticsDeps {
  /** Throws when there is no such VM. */
  readonly statistics: (
    vmid: number,
    timeframe: "hour" | "day" | "week" | "month" | "year" | "decade",
    cf: "AVERAGE" | "MAX",
  ) => readonly Readonly<Record<string, number>>[];
}

export function createVmStatisticsHandlers({ statistics }: VmStatisticsDeps): PveHandlers {
  return {
    "GET /nodes/{node}/qemu/{vmid}/rrddata": ({ vmid, timeframe, cf }) =>
      statistics(vmid, timeframe, cf ?? "AVERAGE"),
  };
}
