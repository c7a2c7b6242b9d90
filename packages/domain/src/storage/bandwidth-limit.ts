// How fast disks may be copied: what the request asks for, what the storages involved say, what the datacenter says.
import type { AccessView } from "../request/context.ts";
import { readPropertyString } from "../schema/property-string.ts";

export interface LimitRequest {
  readonly operation: "clone" | "migration" | "move" | "restore";
  /** Where the copy reads and writes; one that is not known yet is left out. */
  readonly storages: readonly string[];
  /** KiB/s; 0 = without a limit. */
  readonly wanted: number | undefined;
  readonly access: AccessView;
}

/** `bwlimit` as it is kept: "restore=1024,default=2048". */
export interface ConfiguredLimits {
  readonly ofStorage: (storage: string) => string | undefined;
  readonly ofDatacenter: string | undefined;
}

/**
 * KiB/s; undefined = nobody says anything, 0 = without a limit. The smallest of the storages' limits counts, the
 * datacenter's only where a storage has none. A request may ask for less, and for more where its actor could as well
 * change the limit itself.
 */
export function bandwidthLimit(
  { operation, storages, wanted, access }: LimitRequest,
  configured: ConfiguredLimits,
): number | undefined {
  const asked = wanted !== undefined;
  let limit = wanted;
  const apply = (text: string | undefined): boolean => {
    const found = limitFor(operation, text);
    if (found === undefined) return false;
    if (limit === undefined || limit === 0 || found < limit) limit = found;
    return true;
  };
  if (storages.length > 0) {
    if (asked && access.has("/storage", ["Datastore.Allocate"])) return limit;
    let isOpen = false;
    for (const storage of new Set(storages)) {
      if (asked && access.has(`/storage/${storage}`, ["Datastore.Allocate"])) continue;
      if (!apply(configured.ofStorage(storage))) isOpen = true;
    }
    if (!isOpen) return limit;
  }
  if (!asked || !access.has("/", ["Sys.Modify"])) apply(configured.ofDatacenter);
  return limit;
}

function limitFor(operation: LimitRequest["operation"], text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const limits = readPropertyString("bwlimit", text);
  const found = limits[operation] ?? limits["default"];
  return found === undefined ? undefined : Number(found);
}
