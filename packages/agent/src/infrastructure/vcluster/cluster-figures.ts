// What the API of a cluster tells of itself, asked now and then while it is awake. The agent's own questions wake nobody:
// they do not come in where tenants do.
import { messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { isBranch } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster, RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import type { VirtualClusterRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { kubeCall, type KubeCredentials } from "./kube-api.ts";

type Figures = Pick<VirtualClusterRuntime, "pods" | "requests">;

export interface ClusterFiguresDeps {
  readonly host: RunningClusters;
  readonly credentials: (cluster: KeptCluster) => Promise<KubeCredentials>;
  readonly clock: Clock;
  readonly log: Logger;
  readonly call?: typeof kubeCall;
}

const NONE: Figures = {};
const EVERY_MS = 30_000;
/** For whoever collects them after it fell asleep. They are most of what a node tells of a cluster: those of a thousand that
 * were awake some time would be in every report. */
const REQUESTS_KEPT_MS = 300_000;
const MOST_NAMESPACES = 200;
/** Of upstream's two dozen, as it writes them and as we do: enough for a quantile, and few enough for a thousand clusters. */
const BOUNDS: ReadonlyMap<string, string> = new Map(
  ["0.005", "0.025", "0.05", "0.1", "0.2", "0.4", "1", "2", "5", "10", "30", "60"].flatMap(
    (bound): [string, string][] => [
      [bound, bound],
      [`${bound}.0`, bound],
    ],
  ),
);

export class ClusterFigures {
  readonly #deps: ClusterFiguresDeps;
  readonly #known = new Map<string, { readonly figures: Figures; readonly at: number }>();
  readonly #stop = new AbortController();

  constructor(deps: ClusterFiguresDeps) {
    this.#deps = deps;
  }

  /** The same object until there are others. */
  of(name: string): Figures {
    return this.#known.get(name)?.figures ?? NONE;
  }

  async follow(): Promise<void> {
    const { clock } = this.#deps;
    const { signal } = this.#stop;
    await every(EVERY_MS, { clock, signal }, () => this.look());
  }

  close(): void {
    this.#stop.abort();
  }

  async look(): Promise<void> {
    const { host, log, clock } = this.#deps;
    const all = host.list();
    const here = new Set(all.map(({ name }) => name));
    const old = clock.monotonic() - REQUESTS_KEPT_MS;
    for (const [name, { figures, at }] of this.#known)
      if (!here.has(name)) this.#known.delete(name);
      else if (at < old && figures.requests !== undefined)
        this.#known.set(name, { figures: given({ pods: figures.pods }), at });
    for (const cluster of all) {
      if (
        isBranch(cluster) ||
        cluster.phase !== "Running" ||
        cluster.asleep !== undefined ||
        !host.isUp(cluster)
      )
        continue;
      try {
        this.#known.set(cluster.name, { figures: await this.#ask(cluster), at: clock.monotonic() });
      } catch (err) {
        log.debug(
          { resource: `vcluster/${cluster.name}`, err: messageOf(err) },
          "no figures of a virtual cluster",
        );
      }
    }
  }

  async #ask(cluster: KeptCluster): Promise<Figures> {
    const { credentials, call = kubeCall } = this.#deps;
    const to = await credentials(cluster);
    const { signal } = this.#stop;
    const metrics = await call(to, { method: "GET", path: "/metrics" }, signal);
    const pods = await call(to, { method: "GET", path: "/api/v1/pods" }, signal);
    return {
      ...(metrics.status === 200 ? { requests: requestFigures(metrics.body) } : {}),
      ...(pods.status === 200 ? { pods: podCounts(pods.body) } : {}),
    };
  }
}

/** From upstream's own histogram: how many requests of each verb, and how long they took. */
export function requestFigures(text: string): NonNullable<Figures["requests"]> {
  const found: Record<string, { count: number; seconds: number; buckets: Record<string, number> }> = {};
  const lines =
    /^apiserver_request_duration_seconds_(sum|count|bucket)\{([^\n]*\bverb="([A-Z]+)"[^\n]*)\} (\S+)$/gm;
  for (const [, what, labels = "", verb = "", value] of text.matchAll(lines)) {
    const row = (found[verb.toLowerCase()] ??= { count: 0, seconds: 0, buckets: {} });
    if (what === "sum") row.seconds += Number(value);
    else if (what === "count") row.count += Number(value);
    else {
      const bound = BOUNDS.get(/\ble="([^"]+)"/.exec(labels)?.[1] ?? "");
      if (bound !== undefined) row.buckets[bound] = (row.buckets[bound] ?? 0) + Number(value);
    }
  }
  return found;
}

export function podCounts(body: string): NonNullable<Figures["pods"]> {
  const { items = [] } = JSON.parse(body) as {
    readonly items?: readonly { readonly metadata?: { readonly namespace?: string } }[];
  };
  const found: Record<string, number> = {};
  for (const { metadata } of items) {
    const namespace = metadata?.namespace ?? "";
    if (found[namespace] !== undefined || Object.keys(found).length < MOST_NAMESPACES)
      found[namespace] = (found[namespace] ?? 0) + 1;
  }
  return found;
}
