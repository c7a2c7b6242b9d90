// Names of virtual clusters to keys, as the records have them.
import { createHash } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  type ClusterIdentity,
  type Digest,
  findClusterKey,
  newClusterKey,
  requireOwnServerName,
} from "@gpve/domain/vcluster/cluster-key.ts";
import { vclusterCollection, type VirtualClusterRecord } from "@gpve/domain/vcluster/vcluster-record.ts";
import type { Tx } from "@gpve/store/records/port.ts";
import type { Reader } from "../v1/adapter.ts";

const sha256: Digest = (text) => createHash("sha256").update(text).digest();

/** undefined = the tenant has no such cluster. */
export function clusterKeyOf(reader: Pick<Reader, "get">, wanted: ClusterIdentity): string | undefined {
  return findClusterKey(wanted, (key) => reader.get(vclusterCollection, key)?.value, sha256);
}

/** That it has, or would have. */
export function clusterKeyFor(reader: Pick<Reader, "get">, wanted: ClusterIdentity): string {
  const lookup = (key: string) => reader.get(vclusterCollection, key)?.value;
  return findClusterKey(wanted, lookup, sha256) ?? newClusterKey(wanted, lookup, sha256);
}

/** As it is to be written: of its name it is the only one in its tenant. */
export function namedRecord(
  tx: Pick<Tx, "get" | "list">,
  record: VirtualClusterRecord,
): VirtualClusterRecord {
  const { name, tenant } = record;
  const lookup = (key: string) => tx.get(vclusterCollection, key)?.value;
  if (findClusterKey(record, lookup, sha256) !== undefined)
    throw new AppError("object.exists", `VirtualCluster '${name}' already exists in tenant '${tenant}'`);
  requireOwnServerName(
    record,
    tx.list(vclusterCollection).map(({ value }) => value),
  );
  const key = newClusterKey(record, lookup, sha256);
  if (lookup(key) !== undefined)
    throw new AppError(
      "object.conflict",
      `virtual cluster '${name}' of tenant '${tenant}' would have the key ${key}, which another has: choose another name`,
    );
  return key === name ? record : { ...record, key };
}

/** Of those with that name that he may work on; several are refused with their tenants, which he may know of. */
export function onlyOne<T extends { readonly tenant: string }>(
  name: string,
  found: readonly T[],
): T | undefined {
  const [first, second] = found;
  if (second === undefined) return first;
  const tenants = found.map(({ tenant }) => tenant).toSorted();
  throw new AppError(
    "object.conflict",
    `several tenants have a virtual cluster '${name}' (${tenants.join(", ")}): say which is meant, with \`tenant\` (gpvectl: --tenant)`,
    { errors: { tenant: `must be one of ${tenants.join(", ")}` }, data: { tenants } },
  );
}
