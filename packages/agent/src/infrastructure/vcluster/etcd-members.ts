// One replica's etcd among those of the other replicas: joins them, and is one of them when this is over. What to do next is
// planned from what they say (@gpve/domain/vcluster/replicas/member-plan.ts); all of it can be begun again.
//
//   FOLDER/clusters/<name>/etcd-member.json   with whom it joined, and whether it has served
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { ETCD_PORT, type EtcdMembership, etcdPeerUrl } from "@gpve/domain/vcluster/etcd.ts";
import { replicaSlot } from "@gpve/domain/vcluster/overlay.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import {
  type MemberStep,
  nextMemberStep,
  type EtcdMember,
} from "@gpve/domain/vcluster/replicas/member-plan.ts";
import { memberName, replicaNumber } from "@gpve/domain/vcluster/replicas/replica-places.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { changeMembers, listMembers } from "./etcd-admin.ts";
import type { KubeCredentials } from "./kube-api.ts";

export interface JoiningMember {
  readonly cluster: KeptCluster;
  /** Its own. */
  readonly address: string;
  /** Of a member at that address, for those who may change who belongs to it. */
  readonly credentials: (at: { readonly address: string; readonly port: number }) => KubeCredentials;
  readonly start: () => Promise<void>;
  /** What it said last, when it has ended. */
  readonly ended: () => string | undefined;
}

interface Note {
  readonly initialCluster?: string;
  readonly hasServed?: true;
}

/** The first may be on a node that still fetches what it needs. */
const JOIN_MS = 900_000;
const LOOK_MS = 500;

export class EtcdMembers {
  /** FOLDER/clusters */
  readonly #folder: string;
  readonly #clock: Clock;

  constructor(folder: string, clock: Clock) {
    this.#folder = folder;
    this.#clock = clock;
  }

  /** How it is started; undefined = the control plane has no replicas. */
  membership({ name, overlay }: KeptCluster): EtcdMembership | undefined {
    const slot = replicaSlot(overlay);
    if (slot === undefined) return undefined;
    const { initialCluster } = this.#note(name);
    return { name: memberName(slot), ...given({ initialCluster }) };
  }

  /** Resolves when it has a vote. */
  async join(member: JoiningMember, signal: AbortSignal): Promise<void> {
    const { cluster, address } = member;
    const addresses = addressesOf(cluster, address);
    const until = this.#clock.monotonic() + JOIN_MS;
    let runs = false;
    for (;;) {
      const words = runs ? member.ended() : undefined;
      if (words !== undefined)
        throw new AppError(
          "internal.error",
          `the etcd of virtual cluster ${cluster.name} ended: ${words.trim().slice(-500)}`,
        );
      // Its own last: while it learns it knows less than they.
      const others = addresses.filter((each) => each !== address);
      const asked = await this.#list(member, runs ? [...others, address] : others, signal);
      const step = nextMemberStep({
        own: etcdPeerUrl(address),
        name: memberName(replicaSlot(cluster.overlay) ?? 0),
        wanted: addresses.map(etcdPeerUrl),
        hasData: this.#hasData(cluster.name),
        isFirst: cluster.isFirst === true && this.#note(cluster.name).hasServed !== true,
        runs,
        members: asked?.members,
      });
      if (step.do === "done") break;
      const refusal = await this.#do(step, member, asked?.at, signal);
      if (step.do === "start") runs = true;
      signal.throwIfAborted();
      if (this.#clock.monotonic() > until)
        throw new AppError(
          "request.timeout",
          `the etcd of virtual cluster ${cluster.name} did not become a member of the others within ${JOIN_MS / 1000} s: ${refusal ?? step.do}`,
        );
      if (refusal !== undefined) await this.#clock.sleep(LOOK_MS, signal);
    }
    this.#save(cluster.name, { ...this.#note(cluster.name), hasServed: true });
  }

  /** Why it has to be looked at again later; undefined = it is done. */
  async #do(
    step: MemberStep,
    member: JoiningMember,
    at: KubeCredentials | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { cluster, address } = member;
    if (step.do === "wait") return step.why;
    if (step.do === "start") {
      const { initialCluster } = step;
      if (initialCluster !== undefined) this.#save(cluster.name, { initialCluster });
      await member.start();
      return undefined;
    }
    if (step.do === "done" || at === undefined) return undefined;
    const asked = step.do === "add" ? { peerURLs: [etcdPeerUrl(address)], isLearner: true } : { ID: step.id };
    return changeMembers(at, step.do, asked, signal);
  }

  /** As the first that answers says. */
  async #list(
    member: JoiningMember,
    addresses: readonly string[],
    signal: AbortSignal,
  ): Promise<{ readonly at: KubeCredentials; readonly members: readonly EtcdMember[] } | undefined> {
    for (const address of addresses) {
      const at = member.credentials({ address, port: ETCD_PORT });
      try {
        const members = await listMembers(at, signal);
        if (members !== undefined) return { at, members };
      } catch (err) {
        signal.throwIfAborted();
        ignore(err, "the next one is asked, and all of them again");
      }
    }
    return undefined;
  }

  #hasData(name: string): boolean {
    const folder = join(this.#folder, name, "etcd", "member", "wal");
    return existsSync(folder) && readdirSync(folder).some((file) => file.endsWith(".wal"));
  }

  #note(name: string): Note {
    return (readJsonFile(this.#file(name)) as Note | undefined) ?? {};
  }

  #save(name: string, note: Note): void {
    writeFileAtomic(this.#file(name), `${JSON.stringify(note)}\n`);
  }

  #file(name: string): string {
    return join(this.#folder, name, "etcd-member.json");
  }
}

/** Of all replicas, in the network that is theirs. */
function addressesOf({ overlay }: KeptCluster, own: string): readonly string[] {
  const slots = overlay?.nodes.flatMap(({ slot }) => slot ?? []) ?? [];
  return slots.map((slot) => own.replace(/\d+$/, String(replicaNumber(slot))));
}
