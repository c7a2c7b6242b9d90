// Images of container registries.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { normalizeFileName } from "@gpve/domain/storage/content.ts";
import { contentOf } from "@gpve/domain/storage/definition.ts";
import { storageExists, storageRefused } from "@gpve/domain/storage/failures.ts";
import type { OciRegistry } from "../../../application/storage/ports.ts";
import { PULL_OCI, type PullOciArgs } from "../../../application/storage/pull-oci.ts";
import { submit, type StorageHandlerDeps } from "./storage-requests.ts";

export type OciHandlerDeps = Pick<StorageHandlerDeps, "storages" | "files" | "engine"> & {
  readonly registry: OciRegistry;
};

export function createOciHandlers(deps: OciHandlerDeps): PveHandlers {
  const { storages, files, registry } = deps;
  return {
    "GET /nodes/{node}/query-oci-repo-tags": ({ reference }, ctx) => registry.tags(reference, ctx.signal),
    "POST /nodes/{node}/storage/{storage}/oci-registry-pull": async (params, ctx) => {
      const { storage, reference } = params;
      const { definition } = storages.find(storage);
      if (!contentOf(definition).has("vztmpl"))
        throw storageRefused(`storage '${storage}' does not support 'vztmpl' content`);
      const filename = normalizeFileName(
        `${(params.filename ?? nameOf(reference)).replace(/\.tar$/, "")}.tar`,
      );
      const args: PullOciArgs = { volid: `${storage}:vztmpl/${filename}`, reference };
      const { plugin, volname } = storages.volume(args.volid);
      if (await files.exists(plugin.path(volname)))
        throw storageExists(`refusing to override existing file '${filename}'`);
      return submit(deps, ctx, {
        type: PULL_OCI,
        resources: [`volume/${args.volid}`],
        args,
        subject: filename,
      });
    },
  };
}

/** `docker.io/library/nginx:alpine` is kept as `nginx_alpine`. */
function nameOf(reference: string): string {
  return reference.slice(reference.lastIndexOf("/") + 1).replace(":", "_");
}
