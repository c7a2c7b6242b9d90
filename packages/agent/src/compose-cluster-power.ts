// Wires sleep and wake of virtual clusters.
import { zoneOffset, type ZoneOffset } from "@gpve/domain/calendar/time-zone.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi } from "@gpve/domain/vcluster/vnode/ports.ts";
import { askNextWake } from "./application/vcluster/power/ask-next-wake.ts";
import { askUses } from "./application/vcluster/power/ask-uses.ts";
import { ClusterPower, type ClusterPowerDeps } from "./application/vcluster/power/cluster-power.ts";
import { type PowerOperationDeps, powerOperations } from "./application/vcluster/power/power-operations.ts";
import { clusterMetrics } from "./infrastructure/vcluster/cluster-api.ts";
import type { KubeCredentials } from "./infrastructure/vcluster/kube-api.ts";

export interface ClusterPowerParts
  extends
    Omit<ClusterPowerDeps, "host" | "zone" | "uses">,
    Omit<PowerOperationDeps, "nextWake" | "uses" | "availableMemory"> {
  readonly host: ClusterPowerDeps["host"] & PowerOperationDeps["host"];
  readonly api: ClusterApi;
  readonly credentials: (cluster: KeptCluster) => Promise<KubeCredentials>;
  readonly auditLines: (cluster: KeptCluster) => readonly string[];
}

export function composeClusterPower(parts: ClusterPowerParts): {
  readonly power: ClusterPower;
  readonly falls: ReturnType<typeof powerOperations>["sleep"];
  readonly wakes: ReturnType<typeof powerOperations>["wake"];
} {
  const { host, phases, ways, api, credentials, auditLines, clock } = parts;
  const zone = (): ZoneOffset => zoneOffset(Intl.DateTimeFormat().resolvedOptions().timeZone);
  const uses = askUses({ api, metrics: clusterMetrics(credentials), auditLines, clock });
  const { sleep, wake } = powerOperations({
    host,
    phases,
    ways,
    nextWake: askNextWake({ api, clock, zone }),
    uses,
    availableMemory: () => process.availableMemory(),
  });
  return { power: new ClusterPower({ ...parts, zone, uses }), falls: sleep, wakes: wake };
}
