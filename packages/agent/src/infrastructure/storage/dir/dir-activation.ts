import { mkdir, stat, statfs } from "node:fs/promises";
import { AppError } from "@gpve/contracts/errors.ts";
import type { VolumeType } from "@gpve/domain/storage/content.ts";
import { contentOf, type StorageDefinition } from "@gpve/domain/storage/definition.ts";
import type { StorageStatus } from "@gpve/domain/storage/plugin.ts";
import { DIRECTORY_MODE } from "./make-image.ts";
import { requireMounted } from "./mount-point.ts";

export interface DirectoryPlace {
  readonly definition: StorageDefinition;
  readonly root: string;
  readonly directory: (type: VolumeType) => string;
  readonly mounts: (() => Promise<string>) | undefined;
}

/** Makes the directories, where the definition allows it. */
export async function activateDirectory(place: DirectoryPlace): Promise<void> {
  const { definition, root } = place;
  const { storage, options } = definition;
  await requireMounted(storage, root, options["is_mountpoint"], place.mounts);
  const mayMake = (name: string): boolean => (options[name] ?? options["mkdir"] ?? true) === true;
  if (mayMake("create-base-path")) await mkdir(root, { recursive: true, mode: DIRECTORY_MODE });
  const facts = await stat(root).catch(() => undefined);
  if (facts?.isDirectory() !== true) {
    throw new AppError(
      "node.unavailable",
      `unable to activate storage '${storage}' - directory '${root}' does not exist or is unreachable`,
      { pveStatus: 500 },
    );
  }
  if (!mayMake("create-subdirs")) return;
  for (const type of contentOf(definition)) {
    await mkdir(place.directory(type), { recursive: true, mode: DIRECTORY_MODE });
  }
}

export async function directoryStatus({ definition, root, mounts }: DirectoryPlace): Promise<StorageStatus> {
  await requireMounted(definition.storage, root, definition.options["is_mountpoint"], mounts);
  const facts = await statfs(root);
  return {
    active: true,
    total: facts.blocks * facts.bsize,
    used: (facts.blocks - facts.bfree) * facts.bsize,
    avail: facts.bavail * facts.bsize,
  };
}
