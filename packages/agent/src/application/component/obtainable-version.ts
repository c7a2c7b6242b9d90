// Which patch of a minor a cluster can be made of, where its node has none: known in seconds, before anything is written down.
import { ignore } from "@gpve/kit/background.ts";
import type { ComponentOperationDeps } from "./component-operations.ts";
import { catalogued, releaseOf } from "./find-component.ts";
import { patchesFrom } from "./other-releases.ts";

/** Somebody waits for an answer; where sources are slow to say, what is asked for stays asked for. */
const PATIENCE_MS = 12_000;

type Deps = Pick<ComponentOperationDeps, "catalogue" | "store" | "architecture" | "findRefusal">;

/** This one, or the newest older patch of its minor that is here or can be had; none: this one, which then says why not. */
export async function obtainableVersion(
  deps: Deps,
  name: string,
  version: string,
  signal: AbortSignal,
): Promise<string> {
  const component = catalogued(deps.catalogue, name);
  const patience = AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]);
  try {
    for (const patch of patchesFrom(component, version)) {
      if (deps.store.get(name, patch) !== undefined) return patch;
      for (const source of releaseOf(component, patch).sources(deps.architecture))
        if ((await deps.findRefusal(source, patience)) === undefined) return patch;
    }
  } catch (err) {
    if (signal.aborted) throw err;
    ignore(err, "sources are slow to say; the installation waits longer, and says what it waits for");
  }
  return version;
}
