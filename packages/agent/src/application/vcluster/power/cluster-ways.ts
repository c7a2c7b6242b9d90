// Which ways in to the clusters of this node are open, as follows from what each of them is.
import type { ClusterFront, FrontActivity, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";
import type { ElsewhereRoute } from "@gpve/domain/vcluster/cluster-places.ts";
import type { ClusterDoors, KeptCluster, KeptClusters } from "@gpve/domain/vcluster/ports.ts";

export interface Wake {
  readonly from: "hot" | "warm" | "cold";
  readonly ms: number;
}

export class ClusterWays {
  readonly #host: KeptClusters & ClusterDoors;
  readonly #front: ClusterFront;
  readonly #elsewhere: () => readonly ElsewhereRoute[] | undefined;
  readonly #held = new Set<string>();
  readonly #wakes = new Map<string, { readonly last: Wake; readonly count: number }>();
  #telling: Promise<void> | undefined;
  #isStale = false;

  /** `elsewhere`: the ways to clusters of other nodes; undefined = nobody knows yet. */
  constructor(
    host: KeptClusters & ClusterDoors,
    front: ClusterFront,
    elsewhere: () => readonly ElsewhereRoute[] | undefined = () => [],
  ) {
    this.#host = host;
    this.#front = front;
    this.#elsewhere = elsewhere;
  }

  /** Tells the proxy what is so now; several who ask at once are told for together. */
  tell(): Promise<void> {
    this.#isStale = true;
    this.#telling ??= this.#tellAll().finally(() => {
      this.#telling = undefined;
    });
    return this.#telling;
  }

  /** Also while it runs: who connects waits. */
  async hold(name: string): Promise<void> {
    this.#held.add(name);
    await this.tell();
  }

  isHeld(name: string): boolean {
    return this.#held.has(name);
  }

  unhold(name: string): void {
    this.#held.delete(name);
  }

  activity(name: string): FrontActivity {
    return this.#front.activity(name);
  }

  woke(name: string, from: Wake["from"], ms: number): void {
    this.#wakes.set(name, { last: { from, ms }, count: (this.#wakes.get(name)?.count ?? 0) + 1 });
  }

  lastWake(name: string): { readonly last: Wake; readonly count: number } | undefined {
    return this.#wakes.get(name);
  }

  async #tellAll(): Promise<void> {
    while (this.#isStale) {
      this.#isStale = false;
      const routes = this.#host.list().flatMap((cluster): FrontRoute[] => {
        const way = this.#host.way(cluster);
        return way === undefined ? [] : [{ ...way, mode: this.#mode(cluster) }];
      });
      await this.#front.show(routes, this.#elsewhere());
    }
  }

  #mode({ name, phase, asleep, isWanted }: KeptCluster): FrontRoute["mode"] {
    if (!isWanted || ["Stopping", "Stopped", "Failed", "Terminating"].includes(phase)) return "closed";
    // One that moves is nowhere for a moment.
    return asleep !== undefined || phase === "Migrating" || this.#held.has(name) ? "hold" : "open";
  }
}
