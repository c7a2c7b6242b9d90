// Keeps workers whole: a part that ends by itself is started again, later and later, and what is missing of a worker is made
// anew. A worker that its cluster has forgotten is told to it again.
import { messageOf } from "@gpve/contracts/errors.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster, RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { registerNode } from "./register-node.ts";

export interface KeepVnodesDeps {
  readonly host: RunningClusters;
  readonly vnodes: VnodeHost;
  readonly api: ClusterApi;
  readonly clock: Clock;
  readonly log: Logger;
  readonly changed: () => void;
}

const LOOK_MS = 10_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;

export class KeepVnodes {
  readonly #deps: KeepVnodesDeps;
  readonly #stop = new AbortController();
  /** How often in a row a worker had to be repaired, and when it may be tried again. */
  readonly #falls = new Map<string, { readonly count: number; readonly notBefore: number }>();
  #isLooking = false;

  constructor(deps: KeepVnodesDeps) {
    this.#deps = deps;
    deps.vnodes.onEnd((cluster, vnode, part, why) => {
      deps.log.warn(
        { resource: `vcluster/${cluster}`, part },
        `${part} of ${vnode} of ${cluster} ended (${why})`,
      );
      background(deps.log, `repair of ${vnode} of ${cluster}`, this.#soon());
    });
  }

  begin(): void {
    background(this.#deps.log, "keeping workers", this.#run());
  }

  close(): void {
    this.#stop.abort();
  }

  /** Looks at every worker once; resolves when all have been seen. */
  async look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      for (const cluster of this.#deps.host.list().filter(({ phase }) => phase === "Running"))
        for (const vnode of this.#deps.vnodes.list(cluster.name))
          if (vnode.isWanted) await this.#repair(cluster, vnode);
    } finally {
      this.#isLooking = false;
    }
  }

  async #run(): Promise<void> {
    const { clock } = this.#deps;
    await every(LOOK_MS, { clock, signal: this.#stop.signal }, () => this.look());
  }

  async #soon(): Promise<void> {
    await this.#deps.clock.sleep(FIRST_PAUSE_MS, this.#stop.signal).catch(() => undefined);
    if (!this.#stop.signal.aborted) await this.look();
  }

  async #repair(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    const { vnodes, clock, log, changed } = this.#deps;
    const resource = `vcluster/${cluster.name}`;
    try {
      if (vnodes.isUp(cluster, vnode)) {
        const known = this.#known(cluster, vnode);
        // A control plane on another node may sleep, and is not woken for that.
        await (isBranch(cluster) ? known.catch((err: unknown) => ignore(err, "asked again")) : known);
        return;
      }
      const id = `${cluster.name} ${vnode.name}`;
      const { count = 0, notBefore = 0 } = this.#falls.get(id) ?? {};
      const now = clock.monotonic();
      if (now < notBefore) return;
      // One that ran long enough since has earned a quick start again.
      const falls = now - notBefore > LONGEST_PAUSE_MS * 10 ? 0 : count;
      this.#falls.set(id, {
        count: falls + 1,
        notBefore: now + Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** falls),
      });
      log.warn({ resource }, `${vnode.name} of ${cluster.name} is not whole: what is missing is made again`);
      await vnodes.repair(cluster, vnode, this.#stop.signal);
      await vnodes.route(cluster);
      changed();
    } catch (err) {
      if (this.#stop.signal.aborted) return;
      log.error({ resource, err: messageOf(err) }, `${vnode.name} of ${cluster.name} cannot be repaired`);
    }
  }

  /** A kubelet tells its cluster of itself once, when it starts. */
  async #known(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    const { host, api, vnodes, log } = this.#deps;
    // One that sleeps does not answer, and is not woken for that.
    if (cluster.asleep !== undefined || !host.isUp(cluster)) return;
    const path = `/api/v1/nodes/${vnode.name}`;
    const { status } = await api(cluster, { method: "GET", path }, this.#stop.signal);
    if (status !== 404) return;
    log.warn(
      { resource: `vcluster/${cluster.name}` },
      `${vnode.name} was deleted in ${cluster.name}: it is told again`,
    );
    await registerNode(api, cluster, vnode, this.#stop.signal);
    await vnodes.restartPart(cluster, vnode, "kubelet");
  }
}
