// Gives Services of type LoadBalancer their addresses, and has the node send what is for one to a worker that runs.
import { messageOf } from "@gpve/contracts/errors.ts";
import type { KeptCluster, RunningClusters } from "@gpve/domain/vcluster/ports.ts";
import {
  addressOf,
  balance,
  type BalancedService,
  withoutGateways,
} from "@gpve/domain/vcluster/vnode/balancers.ts";
import type { ClusterApi, VnodeHost } from "@gpve/domain/vcluster/vnode/ports.ts";
import { background } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { expectStatus } from "./register-node.ts";
import { withinTurn } from "./within-turn.ts";

/** Where the node sends what comes for the addresses of a cluster. */
export interface BalancerRoutes {
  /** All that the cluster may give. */
  addresses(network: number): readonly string[];
  /** These and no others, to the worker in that place. */
  lead(network: number, addresses: readonly string[], slot: number): Promise<void>;
}

export interface KeepBalancersDeps {
  readonly host: RunningClusters;
  readonly vnodes: Pick<VnodeHost, "list" | "isUp">;
  readonly api: ClusterApi;
  readonly routes: BalancerRoutes;
  readonly clock: Clock;
  readonly log: Logger;
}

const LOOK_MS = 3_000;

export class KeepBalancers {
  readonly #deps: KeepBalancersDeps;
  readonly #stop = new AbortController();
  /** What was led where last: nothing is done while it stays so. */
  readonly #led = new Map<string, string>();

  constructor(deps: KeepBalancersDeps) {
    this.#deps = deps;
  }

  begin(): void {
    background(this.#deps.log, "keeping load balancers", this.#run());
  }

  close(): void {
    this.#stop.abort();
  }

  /** Every cluster that answers and has workers, once. */
  async look(): Promise<void> {
    const { host, log } = this.#deps;
    const clusters = host.list();
    const here = new Set(clusters.map(({ name }) => name));
    for (const name of this.#led.keys()) if (!here.has(name)) this.#led.delete(name);
    for (const cluster of clusters) {
      if (cluster.phase !== "Running" || cluster.asleep !== undefined || !host.isUp(cluster)) continue;
      try {
        await withinTurn(this.#deps.clock, this.#stop.signal, (signal) => this.#serve(cluster, signal));
      } catch (err) {
        if (!this.#stop.signal.aborted)
          log.warn(
            { resource: `vcluster/${cluster.name}`, err: messageOf(err) },
            "load balancers cannot be looked after",
          );
      }
    }
  }

  async #run(): Promise<void> {
    await every(LOOK_MS, { clock: this.#deps.clock, signal: this.#stop.signal }, () => this.look());
  }

  async #serve(cluster: KeptCluster, signal: AbortSignal): Promise<void> {
    const { vnodes, api, routes } = this.#deps;
    const { name, network } = cluster;
    const worker = vnodes.list(name).find((vnode) => vnode.isWanted && vnodes.isUp(cluster, vnode));
    if (network === undefined || worker === undefined) return;
    const request = { method: "GET", path: "/api/v1/services" } as const;
    const { status, body } = await api(cluster, request, signal);
    if (status !== 200) return;
    const { items = [] } = (body ?? {}) as { readonly items?: readonly BalancedService[] };
    const balanced = balance(items, withoutGateways(routes.addresses(network), cluster.overlay));
    const addresses = balanced.flatMap(({ address }) => address ?? []).toSorted();
    // First the way, then whoever reads of it.
    const led = `${worker.slot} ${addresses.join(" ")}`;
    if (this.#led.get(name) !== led) await routes.lead(network, addresses, worker.slot);
    this.#led.set(name, led);
    for (const { service, address } of balanced)
      if (address !== addressOf(service)) await this.#tell(cluster, service, address, signal);
  }

  async #tell(
    cluster: KeptCluster,
    service: BalancedService,
    address: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const { api, log } = this.#deps;
    const { namespace, name } = service.metadata;
    if (address === undefined)
      log.warn(
        { resource: `vcluster/${cluster.name}` },
        `Service ${namespace}/${name} of ${cluster.name} gets no address: none is free, or it asks for one that is not the cluster's`,
      );
    const ingress = address === undefined ? null : [{ ip: address, ipMode: "VIP" }];
    const request = {
      method: "PATCH",
      path: `/api/v1/namespaces/${namespace}/services/${name}/status`,
      body: { status: { loadBalancer: { ingress } } },
    } as const;
    // One that went in between has no use for it.
    await expectStatus(api, cluster, request, [200, 404], signal);
  }
}
