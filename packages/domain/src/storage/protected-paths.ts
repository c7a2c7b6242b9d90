// Paths of a host that are nobody's storage: the system's own, the data directory, and folders where another storage
// keeps its volumes. By their names alone; which places they really are only the node can tell.
import type { VolumeType } from "./content.ts";
import { contentDirs, contentOf, servesNode, storagePath, type StorageDefinition } from "./definition.ts";
import { contentDirectories } from "./dir-volume.ts";
import { storageRefused } from "./failures.ts";
import type { AppError } from "@gpve/contracts/errors.ts";

export type Overlap = "is" | "holds" | "lies in";

export interface ClaimedPath {
  readonly path: string;
  /** "which belongs to the system" */
  readonly owner: string;
}

/** Where gpve keeps its data unless it is told otherwise. */
const USUAL_DATA = "/var/lib/gpve";
const SYSTEM = ["/etc", "/root", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run", USUAL_DATA];
/** What gpve makes as storages itself, below its data directory. */
const OWN_STORAGES = ["local", "shared"];

export function overlapOf(path: string, other: string): Overlap | undefined {
  if (path === other) return "is";
  if (isBelow(other, path)) return "holds";
  return isBelow(path, other) ? "lies in" : undefined;
}

export function isBelow(path: string, folder: string): boolean {
  return path.startsWith(folder === "/" ? "/" : `${folder}/`) && path !== folder;
}

export function hostPaths(dataDir: string): readonly ClaimedPath[] {
  return [
    { path: dataDir, owner: "the data directory of gpve" },
    ...SYSTEM.map((path) => ({ path, owner: "which belongs to the system" })),
  ];
}

/** The only folders inside protected ones that are storages. */
export function ownStorageFolders(dataDir: string): readonly string[] {
  return [dataDir, USUAL_DATA].flatMap((data) => OWN_STORAGES.map((name) => `${data}/storage/${name}`));
}

export interface StorageFolder {
  readonly type: VolumeType;
  readonly path: string;
}

/** Where a storage of files keeps its volumes; none for other storages. */
export function storageFolders(definition: StorageDefinition): readonly StorageFolder[] {
  const root = storagePath(definition);
  if (root === undefined) return [];
  const directories = contentDirs(definition);
  return [...contentOf(definition)].map((type) => ({
    type,
    path: joined(root, directories[type] ?? contentDirectories[type]),
  }));
}

export function claimedBy(definition: StorageDefinition): readonly ClaimedPath[] {
  return storageFolders(definition).map(({ type, path }) => ({
    path,
    owner: `where storage '${definition.storage}' keeps its volumes of type ${type}`,
  }));
}

/** Storages that are there on a node on which the definition would be used as well. */
export function besides(
  definition: StorageDefinition,
  all: readonly StorageDefinition[],
): readonly StorageDefinition[] {
  const nodes = String(definition.options["nodes"] ?? "")
    .split(/[\s,;]+/)
    .filter((node) => node !== "");
  return all.filter(
    (other) =>
      other.storage !== definition.storage &&
      (nodes.length === 0 || nodes.some((node) => servesNode(other, node))),
  );
}

/** Refuses a definition that by its names alone cannot be right on any node. */
export function refuseClaimedStorage(
  definition: StorageDefinition,
  dataDir: string,
  all: readonly StorageDefinition[],
  /** Directories of its nodes that guests have, and could put links into. */
  mapped: readonly ClaimedPath[] = [],
): void {
  const root = storagePath(definition);
  if (root === undefined) return;
  const subject = `storage '${definition.storage}'`;
  refuseClaimed(
    subject,
    root,
    mapped.filter(({ path }) => overlapOf(root, path) !== "holds"),
  );
  if (!ownStorageFolders(dataDir).includes(root)) refuseClaimed(subject, root, hostPaths(dataDir));
  const folders = storageFolders(definition);
  const others = [...besides(definition, all).flatMap(claimedBy), ...mapped];
  for (const { path } of folders) refuseClaimed(subject, path, others);
  for (const [at, { type, path }] of folders.entries()) {
    const inside = folders.slice(at + 1).find((other) => overlapOf(path, other.path) !== undefined);
    if (inside === undefined) continue;
    throw storageRefused(
      inside.path === path
        ? `${subject} uses directory ${path} for multiple content types`
        : `${subject} keeps volumes of type ${type} in ${path} and those of type ${inside.type} in ${inside.path}: give each a directory of its own in 'content-dirs'`,
    );
  }
}

/** Throws when a path is, holds or lies in one of those that are claimed. */
export function refuseClaimed(subject: string, path: string, claimed: readonly ClaimedPath[]): void {
  for (const each of claimed) {
    const overlap = overlapOf(path, each.path);
    if (overlap !== undefined) throw claimedError(subject, path, overlap, each);
  }
}

export function claimedError(
  subject: string,
  path: string,
  overlap: Overlap,
  { path: other, owner }: ClaimedPath,
): AppError {
  return storageRefused(
    `${subject} cannot use ${path}: it ${overlap} ${other}, ${owner}; choose a directory apart from it`,
  );
}

function joined(root: string, folder: string): string {
  return plainPath(`${root}/${folder}`);
}

export function plainPath(path: string): string {
  const parts = path.split("/").filter((part) => part !== "" && part !== ".");
  return `/${parts.join("/")}`;
}
