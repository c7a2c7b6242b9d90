// Keeps workers whole: a part that ends by itself is started again, later and later, and what is missing of a worker is made
// anew. A worker that its cluster has forgotten is told to it again. Clusters are looked at side by side: what one of them makes
// slow, or what is broken in it, keeps no other waiting.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster, RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import type { KeptVnode } from "@gpve/domain/vcluster/vnode/vnode.ts";
import { AtOnce } from "@gpve/kit/at-once.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { registerNode } from "./register-node.ts";
import { withinTurn } from "./within-turn.ts";

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
/** After a boot all workers of a node are missing. */
const REPAIRS_AT_ONCE = 4;
const ASKED_AT_ONCE = 16;
/** Longer than any takes that ends well, also of an emulated machine. */
const REPAIR_MS = 15 * 60_000;

export class KeepVnodes {
  readonly #deps: KeepVnodesDeps;
  readonly #stop = new AbortController();
  /** How often in a row a worker had to be repaired, and when it may be tried again. */
  readonly #falls = new Map<string, { readonly count: number; readonly notBefore: number }>();
  /** Clusters that are being looked at. */
  readonly #looking = new Set<string>();
  readonly #repairs = new AtOnce(REPAIRS_AT_ONCE);
  readonly #asks = new AtOnce(ASKED_AT_ONCE);

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

  /** Looks at every worker once, but of clusters that are being looked at; resolves when all have been seen. */
  async look(): Promise<void> {
    const running = this.#deps.host.list().filter(({ phase }) => phase === "Running");
    await Promise.all(running.map((cluster) => this.#lookAt(cluster)));
  }

  async #run(): Promise<void> {
    const { clock, log } = this.#deps;
    await every(LOOK_MS, { clock, signal: this.#stop.signal }, () =>
      background(log, "looking at workers", this.look()),
    );
  }

  async #lookAt(cluster: KeptCluster): Promise<void> {
    const { name } = cluster;
    if (this.#looking.has(name)) return;
    this.#looking.add(name);
    try {
      for (const vnode of this.#deps.vnodes.list(name)) await this.#repair(cluster, vnode);
    } finally {
      this.#looking.delete(name);
    }
  }

  /** As it is now: whoever waited may find it stopped, or gone. */
  #wanted(cluster: string, vnode: string): { cluster: KeptCluster; vnode: KeptVnode } | undefined {
    const { host, vnodes } = this.#deps;
    const now = host.list().find(({ name, phase }) => name === cluster && phase === "Running");
    const its = vnodes.list(cluster).find(({ name, isWanted }) => name === vnode && isWanted);
    return now === undefined || its === undefined || this.#stop.signal.aborted
      ? undefined
      : { cluster: now, vnode: its };
  }

  async #soon(): Promise<void> {
    await this.#deps.clock.sleep(FIRST_PAUSE_MS, this.#stop.signal).catch(() => undefined);
    if (!this.#stop.signal.aborted) await this.look();
  }

  async #repair(cluster: KeptCluster, vnode: KeptVnode): Promise<void> {
    const { vnodes, clock, log } = this.#deps;
    const resource = `vcluster/${cluster.name}`;
    try {
      if (this.#wanted(cluster.name, vnode.name) === undefined) return;
      if (vnodes.isUp(cluster, vnode)) {
        const known = this.#asks.run(() =>
          withinTurn(clock, this.#stop.signal, (signal) => this.#known(cluster, vnode, signal)),
        );
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
      await this.#repairs.run(() => this.#makeWhole(cluster.name, vnode.name));
    } catch (err) {
      if (this.#stop.signal.aborted) return;
      log.error({ resource, err: messageOf(err) }, `${vnode.name} of ${cluster.name} cannot be repaired`);
    }
  }

  async #makeWhole(name: string, worker: string): Promise<void> {
    const { vnodes, clock, log, changed } = this.#deps;
    const wanted = this.#wanted(name, worker);
    if (wanted === undefined) return;
    const { cluster, vnode } = wanted;
    log.warn(
      { resource: `vcluster/${name}` },
      `${worker} of ${name} is not whole: what is missing is made again`,
    );
    const over = new AbortController();
    const stopTimer = clock.after(REPAIR_MS, () =>
      over.abort(new AppError("request.timeout", `it takes longer than ${REPAIR_MS / 60_000} min`)),
    );
    try {
      await vnodes.repair(cluster, vnode, AbortSignal.any([this.#stop.signal, over.signal]));
      await vnodes.route(cluster);
    } finally {
      stopTimer();
    }
    changed();
  }

  /** A kubelet tells its cluster of itself once, when it starts. */
  async #known(cluster: KeptCluster, vnode: KeptVnode, signal: AbortSignal): Promise<void> {
    const { host, api, vnodes, log } = this.#deps;
    // One that sleeps does not answer, and is not woken for that.
    if (cluster.asleep !== undefined || !host.isUp(cluster)) return;
    const path = `/api/v1/nodes/${vnode.name}`;
    const { status } = await api(cluster, { method: "GET", path }, signal);
    if (status !== 404) return;
    log.warn(
      { resource: `vcluster/${cluster.name}` },
      `${vnode.name} was deleted in ${cluster.name}: it is told again`,
    );
    await registerNode(api, cluster, vnode, signal);
    await vnodes.restartPart(cluster, vnode, "kubelet");
  }
}
