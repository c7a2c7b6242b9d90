// The node's part of /api/v1's images: what there is, and starting to fetch or build one.
import type { ImageRow } from "@gpve/contracts/agent/agent-messages.ts";
import type { RequestOf } from "@gpve/contracts/agent/agent-routes.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import {
  type CatalogueImage,
  imageRecipes,
  type ImageRecipeName,
  imageVolume,
} from "@gpve/domain/image/catalogue.ts";
import { askedBy, type RequestContext } from "@gpve/domain/request/context.ts";
import { STORAGE_SEEN_WITH } from "@gpve/domain/storage/seen-with.ts";
import type { OperationEngine } from "@gpve/kit/operation/engine.ts";
import type { OwnHandlers } from "../agent.ts";
import type { NodeStorages } from "../storage/node-storages.ts";
import { BUILD_IMAGE, cataloguedImage, PULL_IMAGE } from "./image-operations.ts";

type ImageRoute =
  | "GET /gpve/nodes/{node}/images"
  | "POST /gpve/nodes/{node}/images/{image}/pull"
  | "POST /gpve/nodes/{node}/images/{image}/build";

export function imageRoutes(deps: {
  readonly storages: NodeStorages;
  readonly catalogue: readonly CatalogueImage[];
  readonly engine: Pick<OperationEngine, "submit">;
}): OwnHandlers<ImageRoute> {
  const { storages, catalogue, engine } = deps;

  const list = async (
    { storage }: RequestOf<"GET /gpve/nodes/{node}/images">,
    ctx: RequestContext,
  ): Promise<ImageRow[]> => {
    // As for the list of a storage's content: who may make guests from images must see which there are.
    ctx.access.require(`/storage/${storage}`, STORAGE_SEEN_WITH, "any");
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
    requestId: string,
    ctx: RequestContext,
  ): Promise<string> => {
    ctx.access.require(`/storage/${args.storage}`, ["Datastore.AllocateTemplate"]);
    storages.find(args.storage, "import");
    const { upid } = await engine.submit({
      type,
      resources: [`image/${args.storage}/${args.image}`],
      args,
      subject: args.image,
      ...askedBy(ctx),
      requestId,
    });
    return upid;
  };

  return {
    "GET /gpve/nodes/{node}/images": list,
    "POST /gpve/nodes/{node}/images/{image}/pull": ({ image, storage, requestId }, ctx) => {
      if (Object.hasOwn(imageRecipes, image))
        throw new AppError("feature.unsupported", `image '${image}' cannot be pulled, only built`);
      const { name } = cataloguedImage(catalogue, image);
      return start(PULL_IMAGE, { image: name, storage }, requestId, ctx);
    },
    "POST /gpve/nodes/{node}/images/{image}/build": ({ image, storage, requestId }, ctx) =>
      start(BUILD_IMAGE, { recipe: recipeFor(catalogue, image), image, storage }, requestId, ctx),
  };
}

function recipeFor(catalogue: readonly CatalogueImage[], image: string): ImageRecipeName {
  if (Object.hasOwn(imageRecipes, image)) return image as ImageRecipeName;
  const { recipe } = cataloguedImage(catalogue, image);
  if (recipe !== undefined) return recipe;
  throw new AppError("feature.unsupported", `image '${image}' cannot be built, only pulled`);
}
