// Images of container registries.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import type { OciRegistry } from "../../../application/storage/ports.ts";
import { requestOciPull } from "../../../application/storage/request/receive-requests.ts";
import type { StorageRequestDeps } from "../../../application/storage/request/storage-requests.ts";

export type OciHandlerDeps = Pick<StorageRequestDeps, "storages" | "files" | "engine"> & {
  readonly registry: OciRegistry;
};

export function createOciHandlers(deps: OciHandlerDeps): PveHandlers {
  return {
    "GET /nodes/{node}/query-oci-repo-tags": ({ reference }, ctx) =>
      deps.registry.tags(reference, ctx.signal),
    "POST /nodes/{node}/storage/{storage}/oci-registry-pull": (asked, ctx) =>
      requestOciPull(deps, asked, ctx),
  };
}
