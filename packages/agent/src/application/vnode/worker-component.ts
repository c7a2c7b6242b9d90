import type { Component } from "@gpve/domain/component/component.ts";
import type { ComponentStore } from "@gpve/domain/component/ports.ts";
import { catalogued, installedVersion } from "../component/find-component.ts";

/** The version that workers of this node get: the first of the catalogue that is here, else one that was imported, else the first. */
export function workerComponent(
  store: Pick<ComponentStore, "list" | "get">,
  catalogue: readonly Component[],
  name: string,
): string {
  const known = catalogued(catalogue, name).releases.map(({ version }) => version);
  const here = known.find((version) => store.get(name, version) !== undefined);
  return here ?? installedVersion(store, name) ?? known[0] ?? "";
}
