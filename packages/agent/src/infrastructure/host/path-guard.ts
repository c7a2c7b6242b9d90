// Refuses directories that are, hold or lie in what is not to be had: the system's folders, the data directory, and where
// storages keep their volumes. Asked when a directory is defined and again at every use, because a link or a mount can
// have come meanwhile.
import { readFile } from "node:fs/promises";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { servesNode, storagePath } from "@gpve/domain/storage/definition.ts";
import {
  besides,
  claimedBy,
  claimedError,
  hostPaths,
  isBelow,
  overlapOf,
  ownStorageFolders,
  refuseClaimedStorage,
  storageFolders,
  type ClaimedPath,
} from "@gpve/domain/storage/protected-paths.ts";
import { parseMounts, placeOf, placesOverlap, type Mount, type Place } from "./real-place.ts";

export interface PathGuardDeps {
  readonly node: string;
  readonly dataDir: string;
  readonly storages: () => readonly StorageDefinition[];
  /** The text of /proc/self/mountinfo. */
  readonly mounts?: () => Promise<string>;
}

interface ClaimedPlace extends ClaimedPath {
  readonly place: Place;
}

/** They show the kernel, wherever they are mounted. */
const KERNEL_FILE_SYSTEMS = new Set([
  "proc",
  "sysfs",
  "devtmpfs",
  "devpts",
  "cgroup",
  "cgroup2",
  "debugfs",
  "tracefs",
  "securityfs",
  "configfs",
  "efivarfs",
  "bpf",
  "mqueue",
  "pstore",
  "binfmt_misc",
]);

export class PathGuard {
  readonly #deps: PathGuardDeps;
  #host: { readonly mounts: string; readonly places: readonly ClaimedPlace[] } | undefined;

  constructor(deps: PathGuardDeps) {
    this.#deps = deps;
  }

  /**
   * Throws when the directory of a storage, or one for its volumes, is in a place that is not its own. A storage that is
   * already defined is not refused because another one was led into its folders: that one is.
   */
  async requireStorage(definition: StorageDefinition, when: "defined" | "used"): Promise<void> {
    const { dataDir, storages, node } = this.#deps;
    const root = storagePath(definition);
    if (root === undefined) return;
    const others = storages().filter((each) => servesNode(each, node));
    refuseClaimedStorage(definition, dataDir, others);
    const { mounts, claimed } = await this.#hostPlaces();
    const subject = `storage '${definition.storage}'`;
    const place = await placeOf(root, mounts);
    const isOwn = await this.#isOwnStorage(place.path);
    if (!isOwn) refusePlace(subject, root, place, claimed);
    const taken = await Promise.all(
      besides(definition, others)
        .flatMap(claimedBy)
        .map(async (each) => ({ ...each, place: await placeOf(each.path, mounts) })),
    );
    for (const folder of storageFolders(definition)) {
      const real = await placeOf(folder.path, mounts);
      // What lies in the storage's own directory was judged with it.
      if (!isBelow(real.path, place.path) || real.spots[0]?.device !== place.spots[0]?.device)
        refusePlace(subject, folder.path, real, claimed);
      const isPlain = real.path === folder.path && when === "used";
      refusePlace(
        subject,
        folder.path,
        real,
        isPlain ? taken.filter((each) => overlapOf(real.path, each.path) !== undefined) : taken,
      );
    }
  }

  /** The same for a directory of the host that guests are to get. */
  async requireDirectory(subject: string, path: string): Promise<void> {
    const { mounts, claimed } = await this.#hostPlaces();
    const place = await placeOf(path, mounts);
    refusePlace(subject, path, place, claimed);
    for (const each of this.#deps.storages().flatMap(claimedBy))
      refusePlace(subject, path, place, [{ ...each, place: await placeOf(each.path, mounts) }]);
  }

  async #isOwnStorage(real: string): Promise<boolean> {
    const { dataDir } = this.#deps;
    const { path: realData } = await placeOf(dataDir, []);
    return ownStorageFolders(realData).includes(real);
  }

  /** They do not move while the mounts stay as they are. */
  async #hostPlaces(): Promise<{ mounts: readonly Mount[]; claimed: readonly ClaimedPlace[] }> {
    const read = this.#deps.mounts ?? (() => readFile("/proc/self/mountinfo", "utf8"));
    const text = await read();
    const mounts = parseMounts(text);
    if (this.#host?.mounts !== text) {
      const places = await Promise.all(
        hostPaths(this.#deps.dataDir).map(async (each) => ({
          ...each,
          place: await placeOf(each.path, mounts),
        })),
      );
      this.#host = { mounts: text, places };
    }
    return { mounts, claimed: this.#host.places };
  }
}

function refusePlace(subject: string, path: string, place: Place, claimed: readonly ClaimedPlace[]): void {
  const named = place.path === path ? path : `${path} (which really is ${place.path})`;
  if (KERNEL_FILE_SYSTEMS.has(place.fsType))
    throw storageRefused(
      `${subject} cannot use ${named}: it lies on a file system of the kernel (${place.fsType}); choose a directory of a disk`,
    );
  for (const each of claimed) {
    const overlap = placesOverlap(place, each.place);
    if (overlap !== undefined) throw claimedError(subject, named, overlap, each);
  }
}
