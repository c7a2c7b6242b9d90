// A cluster whose node is cut off goes on elsewhere, with workers of the same names, while its pods here run on. They may do so, but
// not what those elsewhere do too: when neither servers nor the standby have been heard of for as long as guests under HA may run
// without their lease, their ways out are shut, before anybody starts them again. Whoever is heard of first opens them.
import { messageOf } from "@gpve/contracts/errors.ts";
import { leaseTimes } from "@gpve/domain/ha/node-lease.ts";
import type { KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";
import type { StandbyHost } from "@gpve/domain/vcluster/standby/ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";

export interface KeepApartDeps {
  readonly host: Pick<KeptClusters, "list">;
  readonly standbys: Pick<StandbyHost, "state">;
  /** For how long no server has confirmed that this node lives; undefined = nobody is asked to. */
  readonly silentMs: () => number | undefined;
  /** What is behind its bridge reaches nothing outside of it, or what it may again. */
  readonly shut: (network: number, isShut: boolean) => Promise<void>;
  readonly clock: Clock;
  readonly log: Logger;
}

const LOOK_MS = 500;

export class KeepApart {
  readonly #deps: KeepApartDeps;
  readonly #stop = new AbortController();
  /** By their names; of those that are not here it is not known what a former agent has said. */
  readonly #shut = new Map<string, boolean>();

  constructor(deps: KeepApartDeps) {
    this.#deps = deps;
  }

  start(): void {
    const { clock, log } = this.#deps;
    background(
      log,
      "ways out of virtual clusters",
      every(LOOK_MS, { clock, signal: this.#stop.signal }, () => this.look()),
    );
  }

  close(): void {
    this.#stop.abort();
  }

  async look(): Promise<void> {
    const { host, shut, log } = this.#deps;
    const here = new Set(host.list().map(({ name }) => name));
    for (const name of this.#shut.keys()) if (!here.has(name)) this.#shut.delete(name);
    const open = host.list().filter(({ spec, network }) => spec.egress === "nat" && network !== undefined);
    for (const cluster of open) {
      const { name, network = -1 } = cluster;
      const isApart = this.#isApart(cluster);
      const before = this.#shut.get(name);
      if (isApart === before) continue;
      try {
        await shut(network, isApart);
        this.#shut.set(name, isApart);
        const about = { resource: `vcluster/${name}` };
        if (isApart)
          log.warn(about, "neither servers nor its standby are heard of: pods of a cluster do not go out");
        else if (before !== undefined) log.info(about, "pods of a cluster go out again");
      } catch (err) {
        const about = { resource: `vcluster/${name}`, err: messageOf(err) };
        log.error(about, "the ways out of a virtual cluster cannot be changed");
      }
    }
  }

  /** One that nobody goes on with runs on, whoever is away. */
  #isApart({ name }: KeptCluster): boolean {
    const told = this.#deps.standbys.state(name);
    if (told === undefined || !told.isJoined || told.isConnected) return false;
    return (this.#deps.silentMs() ?? 0) >= leaseTimes.stopMs;
  }
}
