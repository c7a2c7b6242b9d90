// Keeps what shall run running: parts that end by themselves are started again, later and later, and everything is looked at
// once when the agent starts.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { ClusterPart } from "@gpve/domain/vcluster/cluster-part.ts";
import type {
  ClusterParts,
  ClusterRuns,
  KeptCluster,
  KeptClusters,
  RunningClusters,
} from "@gpve/domain/vcluster/ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface KeepClustersDeps {
  readonly host: KeptClusters & RunningClusters & ClusterRuns & ClusterParts;
  readonly clock: Clock;
  readonly log: Logger;
  readonly changed: () => void;
}

const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** Who ran so long has earned a quick start again. */
const FORGIVEN_AFTER_MS = 600_000;

export class KeepClusters {
  readonly #deps: KeepClustersDeps;
  readonly #falls = new Map<string, { readonly count: number; readonly at: number }>();
  readonly #stop = new AbortController();

  constructor(deps: KeepClustersDeps) {
    this.#deps = deps;
    deps.host.onEnd((name, part, why) => {
      background(deps.log, `restart of ${part} of ${name}`, this.#ended(name, part, why));
    });
  }

  /** After processes were adopted: what is missing of those that shall run is started. */
  async resume(): Promise<void> {
    const { host, log } = this.#deps;
    for (const cluster of host.list().filter(isKept)) {
      if (host.isUp(cluster)) continue;
      log.warn(
        { resource: `vcluster/${cluster.name}` },
        "a virtual cluster does not run whole: it is started",
      );
      background(log, `start of virtual cluster ${cluster.name}`, this.#untilUp(cluster.name));
    }
  }

  close(): void {
    this.#stop.abort();
  }

  /** Its store may have to wait for its standby, or for a server's word that it goes on without. */
  async #untilUp(name: string): Promise<void> {
    const { host, clock, log } = this.#deps;
    for (;;) {
      const cluster = host.get(name);
      if (cluster === undefined || !isKept(cluster) || host.isUp(cluster)) return;
      try {
        await host.start(cluster, this.#stop.signal, () => undefined);
        return;
      } catch (err) {
        if (this.#stop.signal.aborted) return;
        const pauseMs = this.#pause(name);
        log.error(
          { resource: `vcluster/${name}`, pauseMs, err: messageOf(err) },
          "a virtual cluster cannot be started; it is tried again",
        );
        await clock.sleep(pauseMs, this.#stop.signal);
      }
    }
  }

  async #ended(name: string, part: ClusterPart, why: string): Promise<void> {
    const { host, clock, log, changed } = this.#deps;
    changed();
    for (;;) {
      const cluster = host.get(name);
      if (cluster === undefined || !isKept(cluster) || this.#stop.signal.aborted) return;
      const pause = this.#pause(`${name}.${part}`);
      log.warn({ resource: `vcluster/${name}`, part, pauseMs: pause }, `${part} of ${name} ended (${why})`);
      await clock.sleep(pause, this.#stop.signal);
      const now = host.get(name);
      if (now === undefined || !isKept(now)) return;
      try {
        await host.startPart(now, part);
        changed();
        return;
      } catch (err) {
        log.error({ resource: `vcluster/${name}`, err: messageOf(err) }, `${part} cannot be started again`);
      }
    }
  }

  #pause(id: string): number {
    const now = this.#deps.clock.monotonic();
    const before = this.#falls.get(id);
    const isOld = before === undefined || now - before.at > FORGIVEN_AFTER_MS;
    const count = isOld ? 0 : before.count + 1;
    this.#falls.set(id, { count, at: now });
    return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** count);
  }
}

/** One that sleeps is woken by whoever connects; one that is being stopped or has never run is its operation's. */
function isKept({ phase, isWanted, asleep, isSwitching }: KeptCluster): boolean {
  if (!isWanted || asleep !== undefined || isSwitching === true) return false;
  return ["Running", "Scaling", "Upgrading", "Migrating"].includes(phase);
}
