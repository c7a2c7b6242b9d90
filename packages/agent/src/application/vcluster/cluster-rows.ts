// What this node tells servers of its virtual clusters.
import { given } from "@gpve/contracts/given.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type {
  ClusterDoors,
  ClusterUsage,
  KeptCluster,
  RunningClusters,
} from "@gpve/domain/vcluster/ports.ts";
import type {
  StandbyRuntime,
  VirtualClusterRuntime,
  VnodeRuntime,
} from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { ClusterWays } from "./power/cluster-ways.ts";
import { CpuRates } from "./cpu-rates.ts";
import { ReadySince } from "./ready-since.ts";

export interface ClusterRowsDeps {
  readonly host: RunningClusters & ClusterUsage & ClusterDoors;
  readonly clock: Clock;
  /** What its API told when it was asked last. */
  readonly figures: (name: string) => Pick<VirtualClusterRuntime, "pods" | "requests">;
  readonly ways: Pick<ClusterWays, "lastWake">;
  readonly keptAwake: (cluster: KeptCluster) => VirtualClusterRuntime["keptAwake"];
  readonly vnodes: (cluster: KeptCluster) => readonly VnodeRuntime[];
  /** The smallest claim for a volume that waits for more than the cluster may have. */
  readonly waitingBytes: (name: string) => number | undefined;
  readonly standby: (name: string) => StandbyRuntime | undefined;
  /** When the authority before is to be dropped, where everybody has what the new one signed. */
  readonly formerTrustedUntil: (name: string) => number | undefined;
}

export function clusterRows(deps: ClusterRowsDeps): () => readonly VirtualClusterRuntime[] {
  const { host, clock, figures, ways, keptAwake, vnodes, waitingBytes, standby, formerTrustedUntil } = deps;
  const readySince = new ReadySince(clock);
  /** Of those that nothing runs of. Most of many are, and every report tells of all of them. */
  const resting = new WeakMap<
    KeptCluster,
    { readonly row: VirtualClusterRuntime; readonly told: ReturnType<typeof figures> }
  >();
  const rates = new CpuRates(clock);
  const usageOf = (cluster: KeptCluster) => {
    const { startedAt, ...used } = host.usage(cluster);
    const now = clock.now();
    return { ...used, uptimeSeconds: Math.floor((now - startedAt) / 1_000), probedAt: now };
  };
  /** undefined: nothing of it runs. */
  const coresOf = (
    name: string,
    own: number | undefined,
    workers: readonly VnodeRuntime[],
  ): number | undefined => {
    const running = workers.flatMap(({ cpuSeconds }) => cpuSeconds ?? []);
    if (own === undefined && running.length === 0) return undefined;
    return rates.of(
      name,
      running.reduce((sum, seconds) => sum + seconds, own ?? 0),
    );
  };
  const rowOf = (cluster: KeptCluster): VirtualClusterRuntime => {
    const { name, phase, message, version, keysAt } = cluster;
    const isUp = host.isUp(cluster);
    const asleep = phase === "Running" ? cluster.asleep : undefined;
    const isPart = isBranch(cluster);
    const endpoint = cluster.network === undefined || isPart ? undefined : host.endpoint(cluster);
    const wakes = ways.lastWake(name);
    const workers = vnodes(cluster);
    const usage = isUp ? usageOf(cluster) : undefined;
    const shown = {
      phase,
      power: isUp ? (asleep ?? "hot") : "cold",
      ...(asleep === undefined ? {} : { asleep: true }),
    } as const;
    return {
      name,
      version,
      ...shown,
      readySince: readySince.of(cluster, shown),
      ...given({ message, endpoint, keysAt, standby: standby(name) }),
      ...given({ keptAwake: isUp ? keptAwake(cluster) : undefined }),
      ...(cluster.overlay === undefined || isPart
        ? {}
        : given({ formerTrustedUntil: formerTrustedUntil(name) })),
      ...(isPart ? { isBranch: true } : {}),
      ...figures(name),
      ...given({ wakes: wakes?.count, lastWakeMs: wakes && Math.round(wakes.last.ms) }),
      volumes: given({ bound: cluster.spec.volumeBytes, waiting: waitingBytes(name) }),
      vnodes: workers,
      ...usage,
      ...given({ cores: coresOf(name, usage?.cpuSeconds, workers) }),
    };
  };
  return () => {
    const all = host.list();
    rates.keep(new Set(all.map(({ name }) => name)));
    return all.map((cluster) => {
      const told = figures(cluster.name);
      const known = resting.get(cluster);
      if (known?.told === told && !host.isUp(cluster)) return known.row;
      const row = rowOf(cluster);
      if (isAtRest(cluster, row) && !host.isUp(cluster)) resting.set(cluster, { row, told });
      return row;
    });
  };
}

/** What is told of it changes with what is kept of it, and with nothing else but its figures. */
function isAtRest(
  { phase, asleep, overlay }: KeptCluster,
  { vnodes, standby }: VirtualClusterRuntime,
): boolean {
  const isCold = phase === "Running" && asleep === "cold" && overlay === undefined;
  return isCold && vnodes?.length === 0 && standby === undefined;
}
