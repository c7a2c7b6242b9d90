// Refuses directories that are, hold or lie in what is not to be had: the system's folders, the data directory, where
// storages keep their volumes, and for storages what guests have as mapped directories. Asked when a directory is defined and again at every use, because a link or a mount can
// have come meanwhile.
import { readFile } from "node:fs/promises";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { servesNode, storagePath } from "@gpve/domain/storage/definition.ts";
import { isMounted } from "@gpve/domain/storage/storage-types.ts";
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
import {
  parseMounts,
  placeOf,
  placesOverlap,
  spotsOverlap,
  type Mount,
  type Place,
  type Spot,
} from "./real-place.ts";

export interface PathGuardDeps {
  readonly node: string;
  readonly dataDir: string;
  readonly storages: () => readonly StorageDefinition[];
  /** Directories of this node that guests have. */
  readonly mapped: () => readonly ClaimedPath[];
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
    const mapped = this.#deps.mapped();
    refuseClaimedStorage(definition, dataDir, others, mapped);
    const { mounts, claimed } = await this.#hostPlaces();
    const subject = `storage '${definition.storage}'`;
    const unseen = unseenBy([definition, ...others]);
    const place = await placeOf(root, mounts, unseen);
    const isOwn = await this.#isOwnStorage(place.path);
    if (!isOwn) refusePlace(subject, root, place, claimed);
    const shared = await placed(mapped, mounts, unseen);
    // A directory beside the storage's folders does it no harm, one that it lies in does.
    refusePlace(
      subject,
      root,
      place,
      shared.filter((each) => placesOverlap(place, each.place) !== "holds"),
    );
    const taken = await placed(besides(definition, others).flatMap(claimedBy), mounts, unseen);
    for (const folder of storageFolders(definition)) {
      const real = await placeOf(folder.path, mounts, unseen);
      // What lies in the storage's own directory was judged with it; gpve's own storages are judged by mounts alone.
      if (real.path !== place.path && !isBelow(real.path, place.path))
        refusePlace(subject, folder.path, real, claimed);
      else if (isOwn) refuseMounted(subject, folder.path, place, real, claimed);
      refusePlace(subject, folder.path, real, shared);
      const isPlain = when === "used" && real.path === folder.path && foreignSpots(real, place).length === 0;
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
    const { storages, node } = this.#deps;
    const here = storages().filter((each) => servesNode(each, node));
    const unseen = unseenBy(here);
    const place = await placeOf(path, mounts, unseen);
    refusePlace(subject, path, place, claimed);
    refusePlace(subject, path, place, await placed(here.flatMap(claimedBy), mounts, unseen));
    // Inside a storage's directory, beside its folders, is room for others; around it is not.
    const roots = (await placed(here.flatMap(rootOf), mounts, unseen)).filter(
      (each) => placesOverlap(place, each.place) !== "lies in",
    );
    refusePlace(subject, path, place, roots);
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
      const places = await placed(hostPaths(this.#deps.dataDir), mounts);
      this.#host = { mounts: text, places };
    }
    return { mounts, claimed: this.#host.places };
  }
}

function placed(
  claims: readonly ClaimedPath[],
  mounts: readonly Mount[],
  unseen: readonly string[] = [],
): Promise<ClaimedPlace[]> {
  return Promise.all(
    claims.map(async (each) => ({ ...each, place: await placeOf(each.path, mounts, unseen) })),
  );
}

/** Mount points of servers' folders. What is a link in one of them is refused when it is activated. */
function unseenBy(storages: readonly StorageDefinition[]): readonly string[] {
  return storages.filter(isMounted).flatMap((each) => storagePath(each) ?? []);
}

function rootOf(definition: StorageDefinition): readonly ClaimedPath[] {
  const path = storagePath(definition);
  return path === undefined ? [] : [{ path, owner: `the directory of storage '${definition.storage}'` }];
}

/** What is mounted in a storage's directory, and so is not a part of it, may be of another disk but nothing claimed. */
function refuseMounted(
  subject: string,
  path: string,
  root: Place,
  folder: Place,
  claimed: readonly ClaimedPlace[],
): void {
  refuseKernel(subject, path, folder.fsType);
  const foreign = foreignSpots(folder, root);
  for (const each of claimed) {
    const [at] = each.place.spots;
    const overlap = at === undefined ? undefined : spotsOverlap(foreign, at);
    if (overlap !== undefined) throw claimedError(subject, path, overlap, each);
  }
}

/** Those of a folder that are no part of the directory it lies in, but mounted there. */
function foreignSpots({ spots }: Place, { spots: [own] }: Place): readonly Spot[] {
  const isPart = ({ device, path }: Spot): boolean =>
    own?.device === device && (path === own.path || isBelow(path, own.path));
  return spots.filter((spot) => !isPart(spot));
}

function refuseKernel(subject: string, named: string, fsType: string): void {
  if (!KERNEL_FILE_SYSTEMS.has(fsType)) return;
  throw storageRefused(
    `${subject} cannot use ${named}: it lies on a file system of the kernel (${fsType}); choose a directory of a disk`,
  );
}

function refusePlace(subject: string, path: string, place: Place, claimed: readonly ClaimedPlace[]): void {
  const named = place.path === path ? path : `${path} (which really is ${place.path})`;
  refuseKernel(subject, named, place.fsType);
  for (const each of claimed) {
    const overlap = placesOverlap(place, each.place);
    if (overlap !== undefined) throw claimedError(subject, named, overlap, each);
  }
}
