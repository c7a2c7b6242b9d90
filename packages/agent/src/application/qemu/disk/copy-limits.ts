// How fast a VM's disks are copied.
import { bandwidthLimit, type LimitRequest } from "@gpve/domain/storage/bandwidth-limit.ts";
import type { GuestStorages } from "../../guest/guest-storages.ts";
import type { VmConfigs } from "../config/vm-configs.ts";

export interface CopyLimitsPorts {
  readonly storages: GuestStorages;
  readonly configs: VmConfigs;
}

/** KiB/s; undefined = as fast as it goes. */
export function copyLimit(host: CopyLimitsPorts, request: LimitRequest): number | undefined {
  const limit = bandwidthLimit(request, {
    ofStorage: (storage) => {
      const text = host.storages.definition(storage).options["bwlimit"];
      return typeof text === "string" ? text : undefined;
    },
    ofDatacenter: host.configs.datacenterOption("bwlimit"),
  });
  return limit === 0 ? undefined : limit;
}

/** As copiers take it, from KiB/s. */
export function bandwidth(kibPerSecond: number | undefined): { readonly bytesPerSecond?: number } {
  return kibPerSecond === undefined ? {} : { bytesPerSecond: Math.max(1, Math.floor(kibPerSecond * 1024)) };
}
