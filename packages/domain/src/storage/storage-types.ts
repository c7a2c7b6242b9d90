// Every type of storage that PVE knows, with its options; and those that agents have a plugin for.
import { contentTypes, type ContentType } from "./content.ts";

export interface StorageType {
  readonly required: readonly string[];
  readonly optional: readonly string[];
  readonly content: readonly ContentType[];
  readonly defaultContent: readonly ContentType[];
  readonly secrets: readonly string[];
}

const COMMON = ["nodes", "disable", "content", "bwlimit"];
export const FILES: readonly ContentType[] = contentTypes.filter(
  (type) => type !== "none" && type !== "volumes",
);
const DISKS: readonly ContentType[] = ["images", "rootdir"];
const FILE_OPTIONS = [
  "content-dirs",
  "prune-backups",
  "max-protected-backups",
  "format",
  "mkdir",
  "create-base-path",
  "create-subdirs",
  "preallocation",
];

const type = (
  required: readonly string[],
  optional: readonly string[],
  content: readonly ContentType[],
  defaultContent: readonly ContentType[],
  secrets: readonly string[] = [],
): StorageType => ({ required, optional: [...COMMON, ...optional], content, defaultContent, secrets });

/** Every type PVE knows. Those without a plugin here are refused after their parameters were checked. */
export const storageTypes: Readonly<Record<string, StorageType>> = {
  dir: type(
    ["path"],
    [...FILE_OPTIONS, "shared", "is_mountpoint", "snapshot-as-volume-chain"],
    [...FILES, "volumes", "none"],
    DISKS,
  ),
  btrfs: type(
    ["path"],
    [...FILE_OPTIONS, "shared", "is_mountpoint", "nocow"],
    [...FILES, "volumes", "none"],
    DISKS,
  ),
  nfs: type(["server", "export"], [...FILE_OPTIONS, "path", "options", "snapshot-as-volume-chain"], FILES, [
    "images",
  ]),
  cifs: type(
    ["server", "share"],
    [
      ...FILE_OPTIONS,
      "path",
      "username",
      "domain",
      "smbversion",
      "options",
      "subdir",
      "snapshot-as-volume-chain",
    ],
    FILES,
    ["images"],
    ["password"],
  ),
  cephfs: type(
    [],
    [...FILE_OPTIONS, "path", "monhost", "username", "subdir", "fuse", "options", "fs-name"],
    ["vztmpl", "iso", "backup", "snippets", "import"],
    ["backup"],
    ["keyring"],
  ),
  lvm: type(
    ["vgname"],
    [
      "shared",
      "base",
      "saferemove",
      "saferemove_throughput",
      "saferemove-stepsize",
      "tagged_only",
      "snapshot-as-volume-chain",
    ],
    DISKS,
    ["images"],
  ),
  lvmthin: type(["thinpool", "vgname"], [], DISKS, DISKS),
  zfspool: type(["pool"], ["blocksize", "sparse", "mountpoint"], DISKS, DISKS),
  zfs: type(
    ["portal", "target", "pool", "blocksize", "iscsiprovider"],
    ["nowritecache", "sparse", "comstar_hg", "comstar_tg", "lio_tpg", "zfs-base-path"],
    ["images"],
    ["images"],
  ),
  rbd: type(
    [],
    ["monhost", "pool", "data-pool", "namespace", "username", "krbd"],
    DISKS,
    ["images"],
    ["keyring"],
  ),
  iscsi: type(["portal", "target"], [], ["images", "none"], ["images"]),
  iscsidirect: type(["portal", "target"], [], ["images", "none"], ["images"]),
  pbs: type(
    ["server", "datastore"],
    [
      "port",
      "namespace",
      "username",
      "fingerprint",
      "prune-backups",
      "max-protected-backups",
      "skip-cert-verification",
    ],
    ["backup", "none"],
    ["backup"],
    ["password", "encryption-key", "master-pubkey"],
  ),
  esxi: type(
    ["server", "username"],
    ["port", "skip-cert-verification"],
    ["import"],
    ["import"],
    ["password"],
  ),
};

const WITH_PLUGIN = ["dir", "nfs", "cifs", "lvmthin"] as const;
/** Types that agents have a plugin for; their table of plugins does not compile without one for each. */
export type ImplementedType = (typeof WITH_PLUGIN)[number];
export const implementedTypes: ReadonlySet<string> = new Set(WITH_PLUGIN);

/** Storages that are mounted from a server before they are directories. */
const MOUNTED = new Set(["nfs", "cifs"]);

export function isMounted({ type: kind }: { readonly type: string }): boolean {
  return MOUNTED.has(kind);
}
