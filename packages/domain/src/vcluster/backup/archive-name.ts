// Names of archives of virtual clusters: vzdump-vc-NAME_TENANT-2026_01_31-23_59_00.tar.gz. They lie among backups of guests
// and belong to none of them: pruning of guests' backups leaves them alone.
import type { BackupName } from "../../storage/backup-name.ts";

type Civil = NonNullable<BackupName["time"]>;

export interface ClusterArchiveName {
  readonly name: string;
  readonly tenant: string;
  /** Civil time of the node that wrote it. */
  readonly time: Civil;
}

export const CLUSTER_ARCHIVE_EXTENSION = ".tar.gz";
export const CLUSTER_ARCHIVE_PREFIX = "vzdump-vc-";
const PATTERN =
  /^vzdump-vc-([a-z][a-z0-9-]{0,31})_([\w.=-]+)-(\d{4})_(\d{2})_(\d{2})-(\d{2})_(\d{2})_(\d{2})\.tar\.gz$/;

/** With its extension. */
export function clusterArchiveName({ name, tenant, time }: ClusterArchiveName): string {
  const two = (value: number): string => String(value).padStart(2, "0");
  const day = [String(time.year).padStart(4, "0"), two(time.month), two(time.day)].join("_");
  const clock = [time.hour, time.minute, time.second].map(two).join("_");
  // Tenants may be below others; a name of a file has no slash.
  const owner = tenant.replaceAll("/", "=");
  return `${CLUSTER_ARCHIVE_PREFIX}${name}_${owner}-${day}-${clock}${CLUSTER_ARCHIVE_EXTENSION}`;
}

/** undefined = no archive of a virtual cluster by its name. */
export function parseClusterArchiveName(fileName: string): ClusterArchiveName | undefined {
  const match = PATTERN.exec(fileName);
  if (match === null) return undefined;
  const [, name = "", owner = "", ...digits] = match;
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = digits.map(Number);
  return {
    name,
    tenant: owner.replaceAll("=", "/"),
    time: { year, month, day, hour, minute, second },
  };
}
