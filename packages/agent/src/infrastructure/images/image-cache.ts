// Built images by the hash of their inputs. Several processes may want the same one at once: one builds, all get it.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Clock } from "@gpve/kit/clock.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { waitForProcessLock } from "@gpve/kit/process-lock.ts";
import type { ImageRecipe } from "./image-recipe.ts";

export interface CachedImage {
  readonly path: string;
  /** false = it was there already. */
  readonly built: boolean;
}

export interface ImageCacheOptions {
  readonly say?: (line: string) => void;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
}

/** The image of a recipe: from the cache, or built into it. */
export async function cachedImage(
  recipe: ImageRecipe,
  cache: string,
  options: ImageCacheOptions = {},
): Promise<CachedImage> {
  const say = options.say ?? (() => undefined);
  const path = join(cache, await imageFile(recipe, cache));
  if (existsSync(path)) return { path, built: false };
  const lock = await waitForProcessLock(`${path}.lock`, "another build of the same image", options);
  try {
    if (existsSync(path)) return { path, built: false };
    const folder = mkdtempSync(join(cache, `.${recipe.name}-`));
    try {
      const fresh = join(folder, `image${suffixOf(recipe)}`);
      await recipe.build(folder, fresh, say, options.signal);
      renameSync(fresh, path);
      return { path, built: true };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  } finally {
    lock.release();
  }
}

interface Known {
  readonly stamp: string;
  readonly file: string;
}

/** The name of the image's file; asking apt for the inputs takes seconds, so the last answer is kept. */
async function imageFile(recipe: ImageRecipe, cache: string): Promise<string> {
  mkdirSync(cache, { recursive: true });
  const note = join(cache, `${recipe.name}.json`);
  const stamp = recipe.stamp?.();
  const known = readJsonFile(note) as Known | undefined;
  if (stamp !== undefined && known?.stamp === stamp) return known.file;
  const inputs = (await recipe.inputs()).join("\n");
  const file = `${recipe.name}-${createHash("sha256").update(inputs).digest("hex").slice(0, 16)}${suffixOf(recipe)}`;
  if (stamp !== undefined) writeFileAtomic(note, JSON.stringify({ stamp, file } satisfies Known));
  return file;
}

function suffixOf({ suffix = ".qcow2" }: ImageRecipe): string {
  return suffix;
}
