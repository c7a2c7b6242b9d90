// /nodes/{node}/storage: the storages of this node, and what lies on them.
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import {
  allocateVolume,
  changeVolume,
  listContent,
  requestCopy,
  requestRemoval,
  showVolume,
} from "../../../application/storage/request/content-requests.ts";
import {
  listStorages,
  showImport,
  storageStatus,
} from "../../../application/storage/request/list-storages.ts";
import { requestPrune, showPrune } from "../../../application/storage/request/prune-requests.ts";
import { requestDownload, requestUpload } from "../../../application/storage/request/receive-requests.ts";
import type { StorageRequestDeps } from "../../../application/storage/request/storage-requests.ts";

export interface StorageStatistics {
  rows(
    storage: string,
    timeframe: "hour" | "day" | "week" | "month" | "year",
    consolidation: "AVERAGE" | "MAX",
    nowMs: number,
  ): readonly Readonly<Record<string, number>>[];
}

export interface StorageHandlerDeps extends StorageRequestDeps {
  readonly statistics: StorageStatistics;
}

export function createStorageHandlers(deps: StorageHandlerDeps): PveHandlers {
  const { storages, clock } = deps;
  return {
    "GET /nodes/{node}/storage": (asked, ctx) => listStorages(deps, asked, ctx),
    "GET /nodes/{node}/storage/{storage}/status": ({ storage }) => storageStatus(deps, storage),
    "GET /nodes/{node}/storage/{storage}/identity": ({ storage }) => {
      const { definition } = storages.find(storage);
      return {
        id: `${definition.type}:${String(definition.options["path"] ?? storage)}`,
        type: definition.type,
      };
    },
    "GET /nodes/{node}/storage/{storage}/rrddata": ({ storage, timeframe, cf }) => {
      storages.find(storage);
      return deps.statistics.rows(storage, timeframe, cf ?? "AVERAGE", clock.now());
    },
    "GET /nodes/{node}/storage/{storage}/import-metadata": (asked, ctx) => showImport(deps, asked, ctx),
    "GET /nodes/{node}/query-url-metadata": ({ url, ...options }, ctx) =>
      deps.fetcher.facts(url, {
        verifyCertificates: options["verify-certificates"] ?? true,
        signal: ctx.signal,
      }),

    "GET /nodes/{node}/storage/{storage}/content": (asked, ctx) => listContent(deps, asked, ctx),
    "POST /nodes/{node}/storage/{storage}/content": (asked, ctx) => allocateVolume(deps, asked, ctx),
    "GET /nodes/{node}/storage/{storage}/content/{volume}": (asked, ctx) => showVolume(deps, asked, ctx),
    "PUT /nodes/{node}/storage/{storage}/content/{volume}": (asked, ctx) => changeVolume(deps, asked, ctx),
    "POST /nodes/{node}/storage/{storage}/content/{volume}": (asked, ctx) => requestCopy(deps, asked, ctx),
    "DELETE /nodes/{node}/storage/{storage}/content/{volume}": (asked, ctx) =>
      requestRemoval(deps, asked, ctx),
    "POST /nodes/{node}/storage/{storage}/upload": (asked, ctx) => requestUpload(deps, asked, ctx),
    "POST /nodes/{node}/storage/{storage}/download-url": (asked, ctx) => requestDownload(deps, asked, ctx),

    "GET /nodes/{node}/storage/{storage}/prunebackups": (asked) => showPrune(deps, asked),
    "DELETE /nodes/{node}/storage/{storage}/prunebackups": (asked, ctx) => requestPrune(deps, asked, ctx),
  };
}
