// The ways from this node to clusters that others have: as servers say where those are, and as this node remembers which of
// them it had.
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { serverName } from "@gpve/domain/vcluster/cluster-front.ts";
import { valuesOf } from "@gpve/domain/record/collection.ts";
import {
  type ClusterPlace,
  type ElsewhereRoute,
  elsewhereRoutes,
  forgottenPlaces,
  type FormerPlaces,
  placeCollection,
} from "@gpve/domain/vcluster/cluster-places.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import {
  type ClusterDoors,
  type KeptCluster,
  type KeptClusters,
  calledOf,
} from "@gpve/domain/vcluster/ports.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { every } from "@gpve/kit/every.ts";
import type { Records } from "@gpve/store/records/port.ts";

export interface KeepForwardsDeps {
  /** This one. */
  readonly node: string;
  readonly host: KeptClusters & ClusterDoors;
  readonly former: FormerPlaces;
  /** As servers say; undefined = none was reached yet. */
  readonly places: () => readonly ClusterPlace[] | undefined;
  /** Of the first cluster; those of the others follow. */
  readonly firstPort: number;
  readonly sharedPort: number;
  readonly clock: Clock;
  readonly log: Pick<Logger, "warn">;
}

const LOOK_MS = 1_000;

export class KeepForwards {
  readonly #deps: KeepForwardsDeps;
  readonly #stop = new AbortController();
  /** undefined = nothing yet: a proxy that has outlived an agent may know what is so no more. */
  #told: string | undefined;

  constructor(deps: KeepForwardsDeps) {
    this.#deps = deps;
  }

  /** undefined = nobody knows yet. */
  routes(): readonly ElsewhereRoute[] | undefined {
    const { node, host, former, places, firstPort, sharedPort } = this.#deps;
    const known = places();
    if (known === undefined) return undefined;
    const nameOf = (cluster: KeptCluster): string => serverName(calledOf(cluster), cluster.tenant);
    const all = host.list();
    const own = all.flatMap((cluster) => {
      const way = host.way(cluster);
      return way === undefined ? [] : [{ serverName: nameOf(cluster), port: way.port }];
    });
    const branches = all.flatMap((cluster): [string, number][] =>
      isBranch(cluster) && cluster.network !== undefined
        ? [[nameOf(cluster), firstPort + cluster.network]]
        : [],
    );
    const left = former.list().map((each): [string, number] => [each.serverName, firstPort + each.network]);
    return elsewhereRoutes({ node, places: known, own, doors: new Map([...left, ...branches]), sharedPort });
  }

  /** A cluster leaves this node. */
  note(cluster: KeptCluster): void {
    const { tenant, network } = cluster;
    if (network !== undefined)
      this.#deps.former.note({
        serverName: serverName(calledOf(cluster), tenant),
        network,
        at: this.#deps.clock.now(),
      });
  }

  /** Which network a new cluster of that name had here, and which are those of others: one that sleeps may have nothing else
   * that shows it, and one that has left may come back. */
  networks(cluster: Pick<KeptCluster, "name" | "called" | "tenant">): {
    readonly first?: number;
    readonly taken: ReadonlySet<number>;
  } {
    const name = serverName(calledOf(cluster), cluster.tenant);
    const all = this.#deps.former.list();
    const before = all.find((each) => each.serverName === name);
    const here = this.#deps.host.list().filter((each) => each.name !== cluster.name);
    const taken = new Set([
      ...here.flatMap(({ network }) => network ?? []),
      ...all.filter((each) => each !== before).map(({ network }) => network),
    ]);
    return before === undefined ? { taken } : { first: before.network, taken };
  }

  /** Until it is closed; `tell` has the proxy told. */
  async follow(tell: () => Promise<void>): Promise<void> {
    const { clock, log } = this.#deps;
    const { signal } = this.#stop;
    await every(LOOK_MS, { clock, signal }, async () => {
      await this.look(tell).catch((err: unknown) =>
        log.warn({ err: messageOf(err) }, "the ways to virtual clusters of other nodes could not be told"),
      );
    });
  }

  close(): void {
    this.#stop.abort();
  }

  async look(tell: () => Promise<void>): Promise<void> {
    const { former, places, clock } = this.#deps;
    const known = places();
    if (known === undefined) return;
    for (const { serverName: name } of forgottenPlaces(former.list(), known, clock.now()))
      former.forget(name);
    const text = JSON.stringify(this.routes());
    if (text === this.#told) return;
    await tell();
    this.#told = text;
  }
}

/** As servers have written it; undefined = this node has reached none yet. */
export function knownPlaces(records: () => Records): readonly ClusterPlace[] | undefined {
  try {
    return valuesOf(records(), placeCollection);
  } catch (err) {
    if (isAppError(err, "store.unavailable")) return undefined;
    throw err;
  }
}
