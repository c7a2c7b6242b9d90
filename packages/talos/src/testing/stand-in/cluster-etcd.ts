// etcd of one cluster, as the machines of a test share it: who is a member, and whether it was ever begun.
import { Code, ConnectError } from "@connectrpc/connect";

export interface StandInMember {
  readonly id: bigint;
  readonly hostname: string;
}

export class ClusterEtcd {
  readonly #members = new Map<string, StandInMember>();
  /** How often a machine began a cluster; more than once is the mistake that a deployer must never make. */
  bootstraps = 0;
  #next = 0n;

  get members(): readonly StandInMember[] {
    return [...this.#members.values()];
  }

  /** A cluster whose last member has gone is no cluster to join. */
  get isRunning(): boolean {
    return this.#members.size > 0;
  }

  bootstrap(hostname: string): void {
    this.bootstraps += 1;
    this.join(hostname);
  }

  join(hostname: string): void {
    this.#next += 1n;
    // Ids of etcd do not fit into a number.
    this.#members.set(hostname, { id: 2n ** 63n + this.#next, hostname });
  }

  leave(hostname: string): void {
    this.#members.delete(hostname);
  }

  remove(id: bigint): void {
    const member = this.members.find((each) => each.id === id);
    if (member === undefined) throw new ConnectError("etcdserver: member not found", Code.NotFound);
    this.#members.delete(member.hostname);
  }
}

/** The clusters of a test, by the id in their machines' configurations. */
export class StandInClusters {
  readonly #etcds = new Map<string, ClusterEtcd>();

  etcd(clusterId: string): ClusterEtcd {
    const known = this.#etcds.get(clusterId) ?? new ClusterEtcd();
    this.#etcds.set(clusterId, known);
    return known;
  }
}
