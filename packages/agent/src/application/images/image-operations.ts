// Images by name: fetched from their publishers and checked against the publisher's own list, or built here. Either way
// they end as `<storage>:import/<name>.qcow2`, from where VMs are made.
import { AppError } from "@gpve/contracts/errors.ts";
import { type CatalogueImage, type ImageRecipeName, imageVolume } from "@gpve/domain/image/catalogue.ts";
import { findChecksum, type ImageChecksum } from "@gpve/domain/image/checksum-list.ts";
import type { OperationDefinition } from "@gpve/kit/operation/definition.ts";
import type { NodeStorages } from "../storage/node-storages.ts";
import type { StorageFiles, UrlFetcher } from "../storage/ports.ts";

export const PULL_IMAGE = "imagepull";
export const BUILD_IMAGE = "imagebuild";

export interface PullArgs {
  readonly image: string;
  readonly storage: string;
}

export interface BuildArgs {
  readonly recipe: ImageRecipeName;
  /** What it is called in the storage. */
  readonly image: string;
  readonly storage: string;
}

interface PullState {
  checksum?: ImageChecksum;
  temporary?: string;
}

interface BuildState {
  temporary?: string;
}

export interface ImageOperationDeps {
  readonly storages: NodeStorages;
  readonly files: StorageFiles;
  readonly fetcher: UrlFetcher;
  readonly catalogue: readonly CatalogueImage[];
  /** The text a URL leads to; refuses what is too long to be a checksum list. */
  readonly fetchText: (url: string, signal: AbortSignal) => Promise<string>;
  /** Builds, or finds in the cache; answers with the path of a qcow2 image. */
  readonly build: (
    recipe: ImageRecipeName,
    work: { readonly say: (line: string) => void; readonly signal: AbortSignal },
  ) => Promise<string>;
}

export function cataloguedImage(catalogue: readonly CatalogueImage[], name: string): CatalogueImage {
  const found = catalogue.find((image) => image.name === name);
  if (found !== undefined) return found;
  const known = catalogue.map((image) => image.name).join(", ");
  throw new AppError("object.not_found", `there is no image '${name}' in the catalogue; it has ${known}`);
}

export function pullImageOperation(deps: ImageOperationDeps): OperationDefinition<PullArgs, PullState> {
  const { storages, files, fetcher } = deps;
  return {
    type: PULL_IMAGE,
    onCrash: "undo",
    steps: [
      {
        name: "checksum",
        weight: 1,
        run: async (ctx) => {
          const image = cataloguedImage(deps.catalogue, ctx.args.image);
          ctx.log(`fetching checksums from ${image.checksums}`);
          const list = await deps.fetchText(image.checksums, ctx.signal);
          const file = image.url.slice(image.url.lastIndexOf("/") + 1);
          const checksum = findChecksum(list, file);
          if (checksum === undefined) {
            throw new AppError(
              "request.invalid",
              `${image.checksums} has no checksum for ${file}: the image cannot be trusted and is not fetched`,
            );
          }
          ctx.state.checksum = checksum;
          ctx.log(`publisher's ${checksum.algorithm}: ${checksum.value}`);
        },
        undo: async () => undefined,
      },
      {
        name: "download",
        weight: 20,
        run: async (ctx) => {
          const { url } = cataloguedImage(deps.catalogue, ctx.args.image);
          const { checksum } = ctx.state;
          if (checksum === undefined) throw new AppError("internal.error", "the checksum was not noted");
          const target = await place(storages, ctx.args);
          if (await files.exists(target)) {
            const have = await files.hash(target, checksum.algorithm, ctx.signal);
            if (have === checksum.value) {
              ctx.log("the image is here already, and it is the publisher's newest");
              return;
            }
            ctx.log("the image that is here is another version: it will be replaced");
          }
          ctx.state.temporary = `${target}.pull`;
          await ctx.checkpoint();
          ctx.log(`downloading ${url}`);
          const bytes = await fetcher.download(url, ctx.state.temporary, {
            verifyCertificates: true,
            signal: ctx.signal,
            progress: (fraction) => ctx.progress(fraction),
          });
          const got = await files.hash(ctx.state.temporary, checksum.algorithm, ctx.signal);
          if (got !== checksum.value) {
            throw new AppError(
              "request.invalid",
              `checksum mismatch: ${url} has ${checksum.algorithm} ${got}, its publisher says ${checksum.value}`,
            );
          }
          ctx.log(`received ${bytes} bytes, checksum verified`);
          await files.inspect(ctx.state.temporary, `${ctx.args.image}.qcow2`, ctx.signal);
          await files.install(ctx.state.temporary, target, ctx.signal);
          ctx.log(`stored as ${imageVolume(ctx.args.storage, ctx.args.image)}`);
        },
        undo: async (ctx) => {
          if (ctx.state.temporary !== undefined) await files.remove(ctx.state.temporary);
        },
      },
    ],
  };
}

export function buildImageOperation(deps: ImageOperationDeps): OperationDefinition<BuildArgs, BuildState> {
  const { storages, files } = deps;
  return {
    type: BUILD_IMAGE,
    onCrash: "undo",
    steps: [
      {
        name: "build",
        run: async (ctx) => {
          const { recipe, image, storage } = ctx.args;
          const target = await place(storages, ctx.args);
          ctx.log(`building image '${recipe}'`);
          const built = await deps.build(recipe, { say: (line) => ctx.log(line), signal: ctx.signal });
          ctx.state.temporary = `${target}.build`;
          await ctx.checkpoint();
          await files.copy(built, ctx.state.temporary, {
            signal: ctx.signal,
            progress: (fraction) => ctx.progress(fraction),
          });
          await files.install(ctx.state.temporary, target, ctx.signal);
          ctx.log(`stored as ${imageVolume(storage, image)}`);
        },
        undo: async (ctx) => {
          if (ctx.state.temporary !== undefined) await files.remove(ctx.state.temporary);
        },
      },
    ],
  };
}

/** Where the image goes; its storage is there and takes such files. */
async function place(
  storages: NodeStorages,
  { storage, image }: { readonly storage: string; readonly image: string },
): Promise<string> {
  await storages.open(storage, "import");
  const { plugin, volname } = storages.volume(imageVolume(storage, image));
  return plugin.path(volname);
}
