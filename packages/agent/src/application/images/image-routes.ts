// The node's part of /api/v1's images: what there is, and starting to fetch or build one.
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  type CatalogueImage,
  imageRecipes,
  type ImageRecipeName,
  imageVolume,
} from "@gpve/domain/image/catalogue.ts";
import type { RequestContext } from "@gpve/domain/request/context.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { ExtensionHandler } from "../agent.ts";
import type { NodeStorages } from "../storage/node-storages.ts";
import { BUILD_IMAGE, catalogued, PULL_IMAGE } from "./image-operations.ts";

export interface ImageRow {
  readonly name: string;
  readonly about: string;
  readonly pull: boolean;
  readonly build: boolean;
  /** The volume it lies in, if it is here. */
  readonly volume?: string;
  readonly sizeBytes?: number;
  /** Seconds since 1970. */
  readonly time?: number;
}

const DEFAULT_STORAGE = "local";

export function imageRoutes(deps: {
  readonly storages: NodeStorages;
  readonly catalogue: readonly CatalogueImage[];
  readonly engine: Pick<OperationEngine, "submit">;
}): Readonly<Record<string, ExtensionHandler>> {
  const { storages, catalogue, engine } = deps;

  const list = async (
    params: Readonly<Record<string, unknown>>,
    ctx: RequestContext,
  ): Promise<ImageRow[]> => {
    const storage = storageOf(params);
    // As for the list of a storage's content: who may make guests from images must see which there are.
    ctx.access.require(`/storage/${storage}`, ["Datastore.Audit", "Datastore.AllocateSpace"], "any");
    const { plugin } = await storages.open(storage, "import");
    const here = new Map((await plugin.list({ content: ["import"] })).map((file) => [file.volname, file]));
    const row = (name: string, about: string, pull: boolean, build: boolean): ImageRow => {
      const file = here.get(`import/${name}.qcow2`);
      return {
        name,
        about,
        pull,
        build,
        ...(file === undefined
          ? {}
          : { volume: imageVolume(storage, name), sizeBytes: file.size, time: file.ctime }),
      };
    };
    return [
      ...catalogue.map(({ name, about, recipe }) => row(name, about, true, recipe !== undefined)),
      ...Object.entries(imageRecipes).map(([name, about]) => row(name, about, false, true)),
    ];
  };

  const start = async (
    type: string,
    args: Readonly<Record<string, string>> & { readonly image: string; readonly storage: string },
    params: Readonly<Record<string, unknown>>,
    ctx: RequestContext,
  ): Promise<string> => {
    ctx.access.require(`/storage/${args.storage}`, ["Datastore.AllocateTemplate"]);
    storages.find(args.storage, "import");
    const { requestId } = params;
    const { upid } = await engine.submit({
      type,
      resources: [`image/${args.storage}/${args.image}`],
      args,
      subject: args.image,
      actor: ctx.actor?.authid ?? "",
      ...(typeof requestId === "string" ? { requestId } : {}),
      ...given({ traceparent: ctx.traceparent }),
    });
    return upid;
  };

  return {
    "GET /gpve/nodes/{node}/images": list,
    "POST /gpve/nodes/{node}/images/{image}/pull": (params, ctx) => {
      const image = String(params["image"]);
      if (Object.hasOwn(imageRecipes, image))
        throw new AppError("feature.unsupported", `image '${image}' cannot be pulled, only built`);
      const { name } = catalogued(catalogue, image);
      return start(PULL_IMAGE, { image: name, storage: storageOf(params) }, params, ctx);
    },
    "POST /gpve/nodes/{node}/images/{image}/build": (params, ctx) => {
      const image = String(params["image"]);
      return start(
        BUILD_IMAGE,
        { recipe: recipeFor(catalogue, image), image, storage: storageOf(params) },
        params,
        ctx,
      );
    },
  };
}

function recipeFor(catalogue: readonly CatalogueImage[], image: string): ImageRecipeName {
  if (Object.hasOwn(imageRecipes, image)) return image as ImageRecipeName;
  const { recipe } = catalogued(catalogue, image);
  if (recipe !== undefined) return recipe;
  throw new AppError("feature.unsupported", `image '${image}' cannot be built, only pulled`);
}

function storageOf(params: Readonly<Record<string, unknown>>): string {
  const { storage } = params;
  return typeof storage === "string" && storage !== "" ? storage : DEFAULT_STORAGE;
}
