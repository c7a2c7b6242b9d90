// Standbys on this node, whatever they follow: a database of the process of all stores, or an etcd.
import type { BackingStore } from "@gpve/domain/vcluster/backing-store.ts";
import type { KeptStandby, LeadWish, LineEnd, StandbyHost } from "@gpve/domain/vcluster/standby/ports.ts";
import type { StandbyRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import type { EtcdFollowers } from "./etcd-followers.ts";
import type { EtcdLeads } from "./etcd-leads.ts";

export interface StandbyHostsDeps {
  /** Keeps what is known of all of them, too. */
  readonly databases: StandbyHost;
  readonly leads: Pick<EtcdLeads, "lead" | "state" | "wantedLines" | "leadEnd">;
  readonly followers: Pick<EtcdFollowers, "follow" | "unfollow" | "followEnd" | "adopt">;
  /** Of a cluster of this node. */
  readonly storeOf: (name: string) => BackingStore | undefined;
}

export class StandbyHosts implements StandbyHost {
  readonly #deps: StandbyHostsDeps;

  constructor(deps: StandbyHostsDeps) {
    this.#deps = deps;
  }

  lead(name: string, wish: LeadWish): void {
    this.#led(name).lead(name, wish);
  }

  state(name: string): StandbyRuntime | undefined {
    return this.#led(name).state(name);
  }

  hasLeads(): boolean {
    return this.#deps.databases.hasLeads();
  }

  isFed(name: string): boolean {
    return !isEtcd(this.get(name)) && this.#deps.databases.isFed(name);
  }

  wantedLines(): readonly { readonly name: string; readonly generation: number }[] {
    const { databases, leads } = this.#deps;
    return [...databases.wantedLines(), ...leads.wantedLines()];
  }

  leadEnd(name: string): LineEnd {
    return this.#led(name).leadEnd(name);
  }

  followEnd(name: string): LineEnd {
    const { databases, followers } = this.#deps;
    return isEtcd(this.get(name)) ? followers.followEnd(name) : databases.followEnd(name);
  }

  keepProcess(): Promise<boolean> {
    return this.#deps.databases.keepProcess();
  }

  list(): readonly KeptStandby[] {
    return this.#deps.databases.list();
  }

  get(name: string): KeptStandby | undefined {
    return this.#deps.databases.get(name);
  }

  save(standby: KeptStandby): void {
    this.#deps.databases.save(standby);
  }

  async follow(name: string): Promise<void> {
    const { databases, followers } = this.#deps;
    const standby = this.get(name);
    await (isEtcd(standby) ? followers.follow(standby) : databases.follow(name));
  }

  async unfollow(name: string): Promise<void> {
    const { databases, followers } = this.#deps;
    await (isEtcd(this.get(name)) ? followers.unfollow(name) : databases.unfollow(name));
  }

  adopt(name: string): void {
    const { databases, followers } = this.#deps;
    const standby = this.get(name);
    if (isEtcd(standby)) followers.adopt(standby);
    else databases.adopt(name);
  }

  async remove(name: string): Promise<void> {
    const { databases, followers } = this.#deps;
    if (isEtcd(this.get(name))) await followers.unfollow(name);
    await databases.remove(name);
  }

  #led(name: string): Pick<StandbyHost, "lead" | "state" | "leadEnd"> {
    const { databases, leads, storeOf } = this.#deps;
    return storeOf(name) === "etcd" ? leads : databases;
  }
}

function isEtcd(standby: KeptStandby | undefined): standby is KeptStandby {
  return standby?.spec.backingStore === "etcd";
}
