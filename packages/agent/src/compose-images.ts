// Wires images by name: the catalogue, the recipes, and the storages they end in.
import { PRODUCT_VERSION } from "@gpve/contracts/version.ts";
import { imageCatalogue, type CatalogueImage, type ImageRecipeName } from "@gpve/domain/image/catalogue.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import {
  buildImageOperation,
  type ImageOperationDeps,
  pullImageOperation,
} from "./application/images/image-operations.ts";
import { imageRoutes } from "./application/images/image-routes.ts";
import type { NodeStorages } from "./application/storage/node-storages.ts";
import { debianRecipe } from "./infrastructure/images/debian/build-debian.ts";
import { fetchText } from "./infrastructure/images/fetch-text.ts";
import { cachedImage } from "./infrastructure/images/image-cache.ts";
import type { ImageRecipe } from "./infrastructure/images/image-recipe.ts";
import type { ImageTools } from "./infrastructure/image-tools/image-tools.ts";
import { tinyRecipe } from "./infrastructure/images/tiny/build-tiny.ts";
import { lbRecipe } from "./infrastructure/images/lb/build-lb.ts";
import { HttpFetcher } from "./infrastructure/storage/fetch/http-fetcher.ts";
import { HostStorageFiles } from "./infrastructure/storage/fetch/storage-files.ts";

export interface ImageSettings {
  readonly proxy: () => string | undefined;
  readonly data: DataDir;
  readonly storages: NodeStorages;
  readonly engine: OperationEngine;
  readonly exec: Exec;
  readonly imageTools: ImageTools;
  readonly catalogue?: readonly CatalogueImage[];
}

/** Registers the operations and gives the node's routes. */
export function composeImages(settings: ImageSettings): ReturnType<typeof imageRoutes> {
  const { data, storages, engine, exec, catalogue = imageCatalogue } = settings;
  const cache = process.env["GPVE_IMAGE_CACHE"] ?? data.file("agent", "images");
  const fetcher = new HttpFetcher({ userAgent: `gpve/${PRODUCT_VERSION}`, proxy: settings.proxy });
  const recipes: Readonly<Record<ImageRecipeName, () => ImageRecipe>> = {
    tiny: () => tinyRecipe(exec),
    lb: () => lbRecipe(exec),
    debian: () => debianRecipe(exec),
  };
  const deps: ImageOperationDeps = {
    storages,
    files: new HostStorageFiles({ exec, tools: settings.imageTools }),
    fetcher,
    catalogue,
    fetchText: (url, signal) => fetchText(fetcher, url, signal),
    build: async (name, work) => {
      const { path, built } = await cachedImage(recipes[name](), cache, work);
      work.say(built ? "built" : "found in the cache: nothing changed since it was built");
      return path;
    },
  };
  engine.register(pullImageOperation(deps));
  engine.register(buildImageOperation(deps));
  return imageRoutes({ storages, catalogue, engine });
}
