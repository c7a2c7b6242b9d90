// The add-ons that a command is about, fetched and rendered.
import type { Prepared } from "@gpve/talos/addon/prepare-addons.ts";
import type { ApplyPart } from "@gpve/talos/engine/desired.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { Cli } from "../../command.ts";

export type PreparedFor = Prepared;

export interface PrepareOptions {
  /** false: what was fetched before is all there is. */
  readonly isFetching: boolean;
  readonly only?: ApplyPart | undefined;
  /** This one alone. */
  readonly name?: string;
}

const NOTHING: Prepared = { addons: [], findings: [] };

export async function prepareFor(
  cli: Cli,
  { cluster, folder }: ClusterFolder,
  { isFetching, only, name: wanted }: PrepareOptions,
): Promise<PreparedFor> {
  if (only === "infrastructure") return NOTHING;
  const [{ prepareAddons }, { AddonStore }, { fetchBytes }, { exec }] = await Promise.all([
    import("@gpve/talos/addon/prepare-addons.ts"),
    import("@gpve/talos/addon/addon-store.ts"),
    import("@gpve/talos/addon/fetch-source.ts"),
    import("@gpve/kit/exec.ts"),
  ]);
  return prepareAddons({
    cluster,
    folder,
    store: new AddonStore(folder, cluster.metadata.name),
    exec,
    now: () => cli.io.clock.now(),
    fetch: isFetching ? fetchBytes : undefined,
    isMeant: ({ name, isNetwork = false }) =>
      (wanted === undefined || name === wanted) &&
      (only !== "bootstrap" || isNetwork) &&
      (only !== "ccm" || name.endsWith("-ccm")),
  });
}
