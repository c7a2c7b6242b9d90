// Options of the whole cluster, stored as PVE writes them.
import type { RecordCollection, RecordReader } from "../record/collection.ts";

export type DatacenterOptions = Readonly<Record<string, string | number | boolean>>;

export const clusterCollection: RecordCollection<DatacenterOptions> = {
  prefix: "/gpve/cluster/",
  decode: (json) => json as DatacenterOptions,
};

/** The one record that holds them all. */
export const DATACENTER_OPTIONS = "options";

/** Through which nodes fetch from the internet; undefined = they go there themselves. */
export function httpProxy(records: RecordReader): string | undefined {
  const proxy = datacenterOptions(records)["http_proxy"];
  return typeof proxy === "string" ? proxy : undefined;
}

export function datacenterOptions(records: RecordReader): DatacenterOptions {
  const entries = records.collection(clusterCollection).list();
  return entries.find(({ id }) => id === DATACENTER_OPTIONS)?.value ?? {};
}
