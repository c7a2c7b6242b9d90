import { realpath, stat, statfs } from "node:fs/promises";
import { AppError } from "@gpve/contracts/errors.ts";
import type { VolumeType } from "@gpve/domain/storage/content.ts";
import { contentOf, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { storageRefused } from "@gpve/domain/storage/failures.ts";
import type { StorageStatus } from "@gpve/domain/storage/plugin.ts";
import { makeDirectory } from "./make-directory.ts";
import { DIRECTORY_MODE } from "./make-image.ts";
import { requireMounted } from "./mount-point.ts";

export interface DirectoryPlace {
  readonly definition: StorageDefinition;
  readonly root: string;
  readonly directory: (type: VolumeType) => string;
  readonly mounts: (() => Promise<string>) | undefined;
  /** Throws when the place is not the storage's to have. */
  readonly guard: (definition: StorageDefinition) => Promise<void>;
}

/** Makes the directories, where the definition allows it. */
export async function activateDirectory(place: DirectoryPlace): Promise<void> {
  const { definition, root } = place;
  const { storage, options } = definition;
  await place.guard(definition);
  await requireMounted(storage, root, options["is_mountpoint"], place.mounts);
  if ((options["create-base-path"] ?? options["mkdir"] ?? true) === true)
    await makeDirectory(root, DIRECTORY_MODE);
  const facts = await stat(root).catch(() => undefined);
  if (facts?.isDirectory() !== true) {
    throw new AppError(
      "node.unavailable",
      `unable to activate storage '${storage}' - directory '${root}' does not exist or is unreachable`,
      { pveStatus: 500 },
    );
  }
  if (options["create-subdirs"] !== false && options["mkdir"] !== false) {
    for (const type of madeFor(contentOf(definition))) {
      await makeDirectory(place.directory(type), DIRECTORY_MODE);
    }
  }
  await requireDistinct(place);
}

/** Containers are moved by way of the directory for backups. */
function madeFor(content: ReadonlySet<VolumeType>): ReadonlySet<VolumeType> {
  return content.has("rootdir") ? new Set([...content, "backup"]) : content;
}

/** One directory for two kinds of content: a file in it would be two volumes. */
async function requireDistinct({ definition, directory }: DirectoryPlace): Promise<void> {
  const seen = new Set<string>();
  for (const type of [...contentOf(definition)].toSorted()) {
    const real = await realpath(directory(type)).catch(() => undefined);
    if (real === undefined) continue;
    if (seen.has(real)) {
      throw storageRefused(
        `storage '${definition.storage}' uses directory ${real} for multiple content types`,
      );
    }
    seen.add(real);
  }
}

export async function directoryStatus({ definition, root, mounts }: DirectoryPlace): Promise<StorageStatus> {
  await requireMounted(definition.storage, root, definition.options["is_mountpoint"], mounts);
  const facts = await statfs(root);
  return {
    active: facts.blocks > 0,
    total: facts.blocks * facts.bsize,
    used: (facts.blocks - facts.bfree) * facts.bsize,
    avail: facts.bavail * facts.bsize,
  };
}
