// etcd of one cluster, as the machines of a test share it: who is a member, who is up, and whether it was ever begun.
import { Code, ConnectError } from "@connectrpc/connect";

export interface StandInMember {
  readonly id: bigint;
  readonly hostname: string;
  readonly isLearner: boolean;
}

export class ClusterEtcd {
  readonly #members = new Map<string, StandInMember>();
  readonly #isUp = new Map<string, () => boolean>();
  /** How often a machine began a cluster; more than once is the mistake that a deployer must never make. */
  bootstraps = 0;
  /** Alarms and errors of members, by hostname. */
  readonly alarms = new Map<string, 1 | 2>();
  readonly errors = new Map<string, string>();
  #next = 0n;

  get members(): readonly StandInMember[] {
    return [...this.#members.values()];
  }

  /** Members whose machines run. */
  get up(): readonly StandInMember[] {
    return this.members.filter(({ hostname }) => this.#isUp.get(hostname)?.() === true);
  }

  get hasQuorum(): boolean {
    return this.up.length > 0 && this.up.length >= Math.floor(this.#members.size / 2) + 1;
  }

  /** A cluster whose last member has gone, or that cannot decide, is no cluster to join. */
  get isRunning(): boolean {
    return this.hasQuorum;
  }

  get leader(): StandInMember | undefined {
    return this.hasQuorum ? this.up[0] : undefined;
  }

  bootstrap(hostname: string, isUp: () => boolean): void {
    this.bootstraps += 1;
    this.#members.clear();
    this.join(hostname, isUp);
  }

  join(hostname: string, isUp: () => boolean): void {
    this.#next += 1n;
    this.#isUp.set(hostname, isUp);
    // Ids of etcd do not fit into a number.
    this.#members.set(hostname, { id: 2n ** 63n + this.#next, hostname, isLearner: false });
  }

  leave(hostname: string): void {
    this.#agreed();
    this.#members.delete(hostname);
  }

  remove(id: bigint): void {
    const member = this.members.find((each) => each.id === id);
    if (member === undefined) throw new ConnectError("etcdserver: member not found", Code.NotFound);
    this.#agreed();
    this.#members.delete(member.hostname);
  }

  #agreed(): void {
    if (!this.hasQuorum) throw new ConnectError("etcdserver: no leader", Code.Unavailable);
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

  get all(): readonly ClusterEtcd[] {
    return [...this.#etcds.values()];
  }
}
