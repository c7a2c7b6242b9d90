// For `down --guests`, when server and agent have stopped: ends what runs of virtual clusters, as a machine does that is switched
// off. Nothing that is wanted of them changes: the next `up` starts them again with all that is in them.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import { calledOf, type KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import { stopRounds, workerOf } from "@gpve/domain/vcluster/power/stop-rounds.ts";
import { type Clock, systemClock } from "@gpve/kit/clock.ts";
import type { DataDir } from "@gpve/kit/data-dir.ts";
import { exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { SupervisedQemus } from "./infrastructure/guest-process/supervised-qemus.ts";
import { ClusterFiles } from "./infrastructure/vcluster/cluster-files.ts";
import { ClusterNetworks } from "./infrastructure/vcluster/network/cluster-network.ts";
import { keptVnodes, vnodeId, vnodesFolder } from "./infrastructure/vnode/kept-vnodes.ts";
import { VnodeCgroups } from "./infrastructure/vnode/vnode-cgroups.ts";
import { VnodeView } from "./infrastructure/vnode/vnode-view.ts";

const STOP_MS = 10_000;
const PODS_END_MS = 5_000;

export interface StoppedClusters {
  /** Those that had processes, as their tenants call them. */
  readonly ended: readonly string[];
  /** Processes whose supervisors do not answer: they run on. */
  readonly unreachable: readonly string[];
}

export async function stopClusters(
  data: DataDir,
  { log, clock = systemClock }: { readonly log: Logger; readonly clock?: Clock },
): Promise<StoppedClusters> {
  const folder = data.file("vclusters");
  if (!existsSync(folder)) return { ended: [], unreachable: [] };
  const instanceId = `${data.instanceId}-vc`;
  const processes = new SupervisedQemus({
    dataFolder: folder,
    instanceId,
    supervisor: "", // nothing is started
    log,
    clock,
  });
  try {
    const { running, ended, unreachable } = await processes.adopt();
    const cgroups = new VnodeCgroups(instanceId, clock);
    // Who stands still, as those do that sleep warm, does not hear that he shall end.
    for (const { id } of running) await processes.get(id)?.proceed();
    for (const round of stopRounds(running.map(({ id }) => id))) {
      await Promise.all(round.map(async (id) => await processes.get(id)?.stop({ timeoutMs: STOP_MS })));
      // Pods outlive their kubelet, and only now nobody starts them again.
      await Promise.all(workersOf(round).map((worker) => cgroups.end(worker, PODS_END_MS)));
    }
    for (const { id } of [...running, ...ended]) await processes.forget(id);
    const clusters = new ClusterFiles(join(folder, "clusters")).list();
    if (unreachable.length === 0) {
      const networks = new ClusterNetworks(exec, data.instanceId, data.file("vclusters", "run"));
      for (const cluster of clusters) await clear(folder, cluster, { cgroups, networks });
      processes.sweep();
    }
    return {
      ended: clusters.filter((cluster) => isOneOf(running, cluster)).map(title),
      unreachable: unreachable.map(({ label }) => label),
    };
  } finally {
    processes.close();
  }
}

interface Held {
  readonly cgroups: VnodeCgroups;
  readonly networks: ClusterNetworks;
}

/** What the kernel still has of it. */
async function clear(folder: string, cluster: KeptCluster, { cgroups, networks }: Held): Promise<void> {
  for (const vnode of keptVnodes(folder, cluster.name)) {
    await new VnodeView(join(vnodesFolder(folder, cluster.name), vnode.name), exec).remove();
    await cgroups.remove(vnodeId(cluster.name, vnode));
    if (cluster.network !== undefined) await networks.removeWorker(cluster.network, vnode.slot);
  }
  if (cluster.network !== undefined) await networks.clear(cluster.network);
}

function workersOf(ids: readonly string[]): readonly string[] {
  return [...new Set(ids.flatMap((id) => workerOf(id) ?? []))];
}

function isOneOf(running: readonly GuestProcess[], { name }: KeptCluster): boolean {
  return running.some(({ id }) => id.startsWith(`${name}.`));
}

function title(cluster: KeptCluster): string {
  const { tenant } = cluster;
  return tenant === "default" ? calledOf(cluster) : `${tenant}/${calledOf(cluster)}`;
}
