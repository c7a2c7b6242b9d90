// A proxy in memory: who connects is said by the test.
import type { ElsewhereRoute } from "@gpve/domain/vcluster/cluster-places.ts";
import type { ClusterFront, FrontActivity, FrontRoute } from "@gpve/domain/vcluster/cluster-front.ts";

export class FakeClusterFront implements ClusterFront {
  routes: readonly FrontRoute[] = [];
  elsewhere: readonly ElsewhereRoute[] | undefined;
  readonly modes: string[] = [];
  readonly refused: string[] = [];
  readonly seen = new Map<string, FrontActivity>();
  #wake: (name: string) => void = () => undefined;

  url(port: number): string {
    return `https://127.0.0.1:${port}`;
  }

  async show(routes: readonly FrontRoute[], elsewhere?: readonly ElsewhereRoute[]): Promise<void> {
    this.routes = routes;
    this.elsewhere = elsewhere;
    const now = routes.map(({ mode }) => mode).join(" ");
    if (this.modes.at(-1) !== now) this.modes.push(now);
  }

  activity(name: string): FrontActivity {
    return this.seen.get(name) ?? { lastAt: 0, connections: 0, held: 0 };
  }

  refuse(name: string): void {
    this.refused.push(name);
  }

  onWake(listener: (name: string) => void): void {
    this.#wake = listener;
  }

  close(): void {
    this.routes = [];
  }

  /** Somebody connects to one that is held. */
  knock(name: string): void {
    this.#wake(name);
  }
}
