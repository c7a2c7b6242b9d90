// Storages that are taken where a request names none. Servers write down what their configuration files say, so that all
// servers and agents go by the same.
import type { RecordReader } from "../record/collection.ts";
import { clusterCollection } from "./datacenter-options.ts";

export interface StorageDefaults {
  /** Disks of VMs. */
  readonly vmDisk?: string;
  /** Installation discs and images. */
  readonly iso?: string;
  readonly backup?: string;
}

/** The record that holds them. */
export const STORAGE_DEFAULTS = "storage-defaults";

const USES = ["vmDisk", "iso", "backup"] as const;
/** Every cluster begins with it. */
const FIRST_STORAGE = "local";

export function storageDefaults(records: RecordReader): StorageDefaults {
  const entries = records.collection(clusterCollection).list();
  const kept = entries.find(({ id }) => id === STORAGE_DEFAULTS)?.value ?? {};
  return Object.fromEntries(USES.flatMap((use) => (typeof kept[use] === "string" ? [[use, kept[use]]] : [])));
}

/** With what is taken where no configuration says either. */
export function chosenStorages(records: RecordReader): Required<StorageDefaults> {
  return { vmDisk: FIRST_STORAGE, iso: FIRST_STORAGE, backup: FIRST_STORAGE, ...storageDefaults(records) };
}
