import { clusterCollection } from "@gpve/domain/cluster/datacenter-options.ts";
import {
  STORAGE_DEFAULTS,
  storageDefaults,
  type StorageDefaults,
} from "@gpve/domain/cluster/storage-defaults.ts";
import { canonicalJson } from "@gpve/contracts/canonical-json.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { Records } from "@gpve/store/records/port.ts";

/** The server that started last is right; where others say something else, that is told. */
export async function keepStorageDefaults(
  records: Records,
  wanted: StorageDefaults,
  log: Pick<Logger, "info">,
): Promise<void> {
  const before = storageDefaults(records);
  if (canonicalJson(before) === canonicalJson(wanted)) return;
  await records.transact((tx) => {
    if (Object.keys(wanted).length === 0) tx.delete(clusterCollection, STORAGE_DEFAULTS);
    else tx.put(clusterCollection, STORAGE_DEFAULTS, { ...wanted });
  });
  log.info(
    { before, now: wanted },
    "storage.defaults of this server's configuration now hold for the cluster; give all servers the same",
  );
}
