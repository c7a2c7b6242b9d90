// Answers that describe the server itself.
import { isAppliable } from "../../application/v1/adapter.ts";
import { apiExtensions } from "@gpve/contracts/api-extensions.ts";
import type { PveMethod } from "@gpve/contracts/pve/schema.ts";
import type { Coverage, Discovery } from "@gpve/contracts/v1/bodies.ts";
import { verbsOf } from "@gpve/contracts/v1/kind.ts";
import { API_VERSION } from "@gpve/contracts/v1/object.ts";
import { areaOf } from "@gpve/contracts/v1/openapi-pve.ts";
import type { KindAdapter } from "../../application/v1/adapter.ts";

export function discovery(version: string, adapters: readonly KindAdapter[]): Discovery {
  return {
    apiVersion: API_VERSION,
    version,
    kinds: adapters.map(({ kind, ...adapter }) => ({
      kind: kind.kind,
      plural: kind.plural,
      aliases: [...kind.aliases],
      scope: kind.scope,
      description: kind.description,
      verbs: [...verbsOf(kind)],
      selectableFields: ["metadata.name", ...kind.selectableFields],
      columns: kind.columns.map((column) => ({ ...column })),
      describe: kind.describe.map((group) => ({ title: group.title, fields: [...group.fields] })),
      appliable: isAppliable({ kind, ...adapter }),
    })),
    extensions: apiExtensions.map((extension) => ({ ...extension })),
  };
}

export function coverage(
  methods: readonly PveMethod[],
  implemented: (method: PveMethod) => boolean,
): Coverage {
  const routes = methods.map((method) => ({
    method: method.method,
    path: method.path,
    area: areaOf(method.path),
    implemented: implemented(method),
  }));
  const areas = [...Map.groupBy(routes, (route) => route.area)].map(([area, own]) => ({
    area,
    implemented: own.filter((route) => route.implemented).length,
    known: own.length,
  }));
  return {
    implemented: routes.filter((route) => route.implemented).length,
    known: routes.length,
    areas: areas.toSorted((a, b) => (a.area < b.area ? -1 : 1)),
    routes,
  };
}
