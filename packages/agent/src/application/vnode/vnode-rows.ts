// What servers are told of a cluster's workers. Looking costs files, mounts and cgroups of each: reports come more often than
// anybody needs it anew.
import { given } from "@gpve/contracts/given.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { VnodeRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";

const FRESH_MS = 5_000;

type Looked = "list" | "isUp" | "pods" | "usage" | "accelerator" | "volumes" | "volumeBytes";

interface Seen {
  readonly at: number;
  readonly phase: KeptCluster["phase"];
  readonly rows: readonly VnodeRuntime[];
}

export class VnodeRows {
  readonly #vnodes: Pick<VnodeHost, Looked>;
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #seen = new Map<string, Seen>();

  constructor(vnodes: Pick<VnodeHost, Looked>, clock: Pick<Clock, "monotonic">) {
    this.#vnodes = vnodes;
    this.#clock = clock;
  }

  of(cluster: KeptCluster): readonly VnodeRuntime[] {
    const { name, phase } = cluster;
    const [before, at] = [this.#seen.get(name), this.#clock.monotonic()];
    // One that has just come to run has workers that run, whatever was seen a moment ago.
    if (before !== undefined && before.phase === phase && at - before.at < FRESH_MS) return before.rows;
    try {
      const rows = this.#look(cluster);
      if (rows.length === 0) this.#seen.delete(name);
      else this.#seen.set(name, { at, phase, rows });
      return rows;
    } catch (err) {
      ignore(err, "a worker whose folders just go; a report must not fail for it");
      return before?.rows ?? [];
    }
  }

  #look(cluster: KeptCluster): readonly VnodeRuntime[] {
    // Before it has a network it has no worker that could run.
    const isThere = cluster.network !== undefined;
    return this.#vnodes.list(cluster.name).map((vnode) => ({
      name: vnode.name,
      ...this.#used(cluster, vnode, isThere && this.#vnodes.isUp(cluster, vnode)),
      cpus: vnode.size.cpus,
      memoryBytes: vnode.size.memoryBytes,
      pods: isThere ? this.#vnodes.pods(cluster, vnode).length : 0,
      ...this.#stored(cluster.name, vnode),
      ...given({ accelerator: isThere ? this.#vnodes.accelerator(cluster, vnode) : undefined }),
    }));
  }

  #stored(cluster: string, vnode: KeptVnode): Pick<VnodeRuntime, "volumes" | "volumeBytes"> {
    const volumes = this.#vnodes.volumes(cluster, vnode).length;
    if (volumes === 0) return {};
    const bytes = this.#vnodes.volumeBytes(cluster, vnode);
    // A size that nobody could read is no number to others.
    return { volumes, ...(Number.isFinite(bytes) ? { volumeBytes: bytes } : {}) };
  }

  #used(
    cluster: KeptCluster,
    vnode: KeptVnode,
    running: boolean,
  ): Pick<VnodeRuntime, "running" | "usedBytes" | "cpuSeconds"> {
    if (!running) return { running };
    const { memoryBytes: usedBytes, cpuSeconds } = this.#vnodes.usage(cluster, vnode);
    return { running, usedBytes, cpuSeconds };
  }
}
