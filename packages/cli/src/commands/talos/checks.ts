// The list of what makes a cluster work, from outside and from inside.
import type { World } from "@gpve/talos/engine/world.ts";
import type { ClusterFolder } from "@gpve/talos/folder/cluster-folder.ts";
import type { SecretsBundle } from "@gpve/talos/secrets/bundle.ts";
import type { Check } from "@gpve/talos/status/cluster-status.ts";
import type { Cli, OptionSpec } from "../../command.ts";
import type { Input } from "../../input.ts";
import { ownCertificates } from "./merged-access.ts";
import type { Opened } from "./open.ts";

/** Small, and with all that the probes run: sh, timeout, wget, nslookup, httpd. */
const IMAGE = "docker.io/library/busybox:1.37";
const TIMEOUT_MS = 180_000;

export const insideOptions: readonly OptionSpec[] = [
  { flags: "--outside", about: "put no pods into the cluster: only what can be seen from here" },
  { flags: "--probe-image <image>", about: `what the pods run (${IMAGE})` },
];

export interface InsideChoice {
  readonly isOutside: boolean;
  readonly image: string | undefined;
}

export const insideChoice = (input: Input): InsideChoice => ({
  isOutside: input.flag("outside"),
  image: input.text("probeImage"),
});

export interface CheckOptions extends InsideChoice {
  readonly secrets: SecretsBundle | undefined;
}

/** Pods are only tried where the cluster looks well from outside: else they would tell what is known. */
export async function allChecks(
  cli: Cli,
  { cluster, kubernetes }: Opened,
  world: World,
  place: ClusterFolder,
  { secrets, isOutside, image = IMAGE }: CheckOptions,
): Promise<readonly Check[]> {
  const [{ clusterStatus }, { verifyInside }] = await Promise.all([
    import("@gpve/talos/status/cluster-status.ts"),
    import("@gpve/talos/verify/verify-inside.ts"),
  ]);
  const own = await ownCertificates(cli, secrets, cluster.lock.formerAuthorities);
  const { checks } = clusterStatus(cluster.desired(), world, cluster.lock, secrets, own);
  const nodes = (world.kubernetes?.nodes ?? []).filter(({ isReady }) => isReady).map(({ name }) => name);
  const hasNetwork = place.cluster.addons.cni.type !== "none";
  if (isOutside || !hasNetwork || nodes.length === 0) return checks;
  cli.out.note(
    "Putting pods on every node, in the namespace gpve-verify, to see whether they reach each other.",
  );
  const inside = await verifyInside({
    kubernetes,
    clock: cli.io.clock,
    nodes,
    dnsDomain: place.cluster.network.dnsDomain,
    image,
    timeoutMs: TIMEOUT_MS,
    signal: cli.signal,
  });
  return [...checks, ...inside];
}
