// How many archives of virtual clusters there are. Their names say whose they are, also when the cluster is gone; a node writes
// down what it sees on its storages.
import { AppError } from "@gpve/contracts/errors.ts";

export interface ClusterBackups {
  readonly name: string;
  readonly tenant: string;
  /** By place: a storage that nodes share, or `storage@node`. */
  readonly counts: Readonly<Record<string, number>>;
}

/** A node's own to write. */
export function clusterBackupCollection(node: string) {
  return { prefix: `/gpve/node-data/${node}/cluster-backups/`, decode };
}

export function clusterBackupsId({ name, tenant }: Pick<ClusterBackups, "name" | "tenant">): string {
  return `${name}_${tenant.replaceAll("/", "=")}`;
}

export function backupPlace(storage: string, isShared: boolean, node: string): string {
  return isShared ? storage : `${storage}@${node}`;
}

/** What several nodes see in one place is there once. */
export function clusterBackupTotals(
  seen: readonly ClusterBackups[],
): readonly { readonly name: string; readonly tenant: string; readonly backups: number }[] {
  const totals = Map.groupBy(seen, (row) => clusterBackupsId(row));
  return [...totals.values()].flatMap((rows) => {
    const [first] = rows;
    const places = new Map<string, number>();
    for (const { counts } of rows)
      for (const [place, count] of Object.entries(counts))
        places.set(place, Math.max(count, places.get(place) ?? 0));
    const backups = [...places.values()].reduce((sum, count) => sum + count, 0);
    return first === undefined ? [] : [{ name: first.name, tenant: first.tenant, backups }];
  });
}

function decode(json: unknown): ClusterBackups {
  const { name, tenant, counts } = (json ?? {}) as Partial<ClusterBackups>;
  const isCount = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
  if (
    typeof name !== "string" ||
    typeof tenant !== "string" ||
    typeof counts !== "object" ||
    !Object.values(counts).every(isCount)
  )
    throw new AppError(
      "data.newer_version",
      "a node's count of backups of a virtual cluster has a shape this version does not know",
    );
  return { name, tenant, counts };
}
