// The etcds of this node's clusters and their standbys: what a server has said comes about, step by step, and what is so is told.
// What to do next is planned from what they say (@gpve/domain/vcluster/standby/etcd-pair.ts); all of it can be begun again.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import {
  isShared,
  nextPairStep,
  type PairMember,
  pairPeerUrl,
  pairSocket,
  pairStart,
  type PairStep,
  standbyMember,
} from "@gpve/domain/vcluster/standby/etcd-pair.ts";
import type { KeptCluster } from "@gpve/domain/vcluster/ports.ts";
import type { LeadWish, LineEnd } from "@gpve/domain/vcluster/standby/ports.ts";
import type { StandbyRuntime } from "@gpve/domain/vcluster/vcluster-runtime.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { every } from "@gpve/kit/every.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { changeMembers, listMembers, type MemberStatus, memberStatus } from "../etcd-admin.ts";
import type { KubeCredentials } from "../kube-api.ts";
import type { EtcdPairFiles } from "./etcd-pair-files.ts";
import { LeadLine } from "./pair-line.ts";
import { openSocketDoor, type SocketDoor } from "./socket-door.ts";
import { type AskedMember, standing, tellPair } from "./tell-pair.ts";

/** The process of a cluster's etcd. */
export interface EtcdProcess {
  readonly uid: number;
  /** It was started to go on without that one's vote. */
  readonly alone: number | undefined;
  /** It stands still with its cluster, which sleeps. */
  readonly isFrozen: boolean;
}

export interface EtcdLeadsDeps {
  /** DIR/vclusters */
  readonly folder: string;
  readonly files: EtcdPairFiles;
  /** Clusters of one control plane with an etcd of their own. */
  readonly clusters: () => readonly KeptCluster[];
  /** undefined = it does not run. */
  readonly process: (cluster: KeptCluster) => EtcdProcess | undefined;
  /** Ended, and started as it is to be now; nobody takes it for one that has failed. */
  readonly restart: (cluster: KeptCluster) => Promise<void>;
  /** For those who may change who belongs to it. */
  readonly credentials: (cluster: KeptCluster) => KubeCredentials;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Lead {
  readonly generation: number;
  /** Where agents join the line to the other node. */
  readonly door: SocketDoor;
  line: LeadLine | undefined;
  /** Where this node's member finds the other one, while there is a line. */
  peer: SocketDoor | undefined;
  isThere: boolean;
  /** Since when the two have been there, and whether one of them has led since. */
  met: { readonly at: number; readonly hadLeader: boolean } | undefined;
  lookedAt: number;
  state: StandbyRuntime | undefined;
  members: { readonly all: readonly PairMember[]; readonly at: number } | undefined;
  refusal: string | undefined;
}

const LOOK_MS = 200;
/** One with which all is well is asked so often. */
const WELL_MS = 1_000;
/** Who has just met leads nobody for a while. */
const MEETING_MS = 15_000;
/** Who belongs to it does not change by itself. */
const MEMBERS_MS = 10_000;

export class EtcdLeads {
  readonly #deps: EtcdLeadsDeps;
  readonly #stop = new AbortController();
  readonly #leads = new Map<string, Lead>();
  readonly #busy = new Set<string>();

  constructor(deps: EtcdLeadsDeps) {
    this.#deps = deps;
  }

  start(): void {
    const { clock, log } = this.#deps;
    mkdirSync(this.#lines, { recursive: true, mode: 0o700 });
    background(
      log,
      "standbys of etcds",
      every(LOOK_MS, { clock, signal: this.#stop.signal }, () => this.look()),
    );
  }

  close(): void {
    this.#stop.abort();
    for (const name of this.#leads.keys()) this.#end(name);
  }

  lead(name: string, wish: LeadWish): void {
    const { files } = this.#deps;
    const note = files.note(name);
    if (note.wish !== undefined && note.wish.generation > wish.generation)
      throw new AppError(
        "object.conflict",
        `what is said of the standby of virtual cluster '${name}' (${wish.generation}) is older than what holds (${note.wish.generation})`,
      );
    files.save(name, { ...note, wish });
    // Of what was said before nothing is told any more.
    if (this.#leads.get(name)?.generation !== wish.generation) this.#end(name);
  }

  state(name: string): StandbyRuntime | undefined {
    return this.#leads.get(name)?.state;
  }

  wantedLines(): readonly { readonly name: string; readonly generation: number }[] {
    return [...this.#leads].flatMap(([name, { generation }]) =>
      this.#deps.files.note(name).wish?.mode === "stream" ? [{ name, generation }] : [],
    );
  }

  leadEnd(name: string): LineEnd {
    return { path: join(this.#lines, socketOf(name)), ownerUid: process.getuid?.() ?? 0 };
  }

  /** One look at all that nobody is at work on. */
  async look(): Promise<void> {
    const { clusters, log } = this.#deps;
    const all = clusters();
    const known = new Set(all.map(({ name }) => name));
    for (const name of this.#leads.keys()) if (!known.has(name)) this.#end(name);
    const one = async (cluster: KeptCluster): Promise<void> => {
      const { name } = cluster;
      if (this.#busy.has(name) || this.#isWell(name)) return;
      this.#busy.add(name);
      try {
        await this.#keep(cluster);
      } catch (err) {
        if (!this.#stop.signal.aborted)
          log.warn(
            { resource: `vcluster/${name}`, err: messageOf(err) },
            "the standby of an etcd is not kept",
          );
      } finally {
        this.#busy.delete(name);
      }
    };
    // One that is slow keeps nobody else waiting.
    for (const cluster of all.filter(({ name }) => !this.#busy.has(name)))
      background(log, `standby of ${cluster.name}`, one(cluster));
  }

  #isWell(name: string): boolean {
    const { clock, files } = this.#deps;
    const lead = this.#leads.get(name);
    if (lead?.state?.isJoined !== true || !lead.state.isConnected) return false;
    return (
      clock.monotonic() - lead.lookedAt < WELL_MS && files.note(name).wish?.generation === lead.generation
    );
  }

  async #keep(cluster: KeptCluster): Promise<void> {
    const { files, process } = this.#deps;
    const { name } = cluster;
    const note = files.note(name);
    const runs = process(cluster);
    const { wish } = note;
    if (runs === undefined || (wish === undefined && note.shared === undefined)) return this.#end(name);
    const lead = wish === undefined ? undefined : await this.#begin(name, wish);
    // Whoever stands still answers nothing, neither us nor anybody else.
    const isSilent = runs.isFrozen && runs.alone === undefined;
    const status = isSilent ? undefined : await this.#status(cluster);
    const members = status === undefined ? undefined : await this.#members(cluster, lead);
    const asked =
      status === undefined || members === undefined ? undefined : { ownId: status.ownId, members };
    if (lead !== undefined) {
      lead.lookedAt = this.#deps.clock.monotonic();
      await this.#hello(name, lead, { asked, status });
      this.#tell(name, lead, { asked, status, isSilent });
    }
    const { alone } = runs;
    const hasSocket = files.hasSocket(name);
    const step = nextPairStep({ note, asked, alone, hasSocket, isThere: lead?.isThere ?? false });
    // What was said meanwhile counts: it is looked at again.
    const now = files.note(name).wish;
    if (step === undefined || now?.generation !== wish?.generation || now?.mode !== wish?.mode) return;
    await this.#do(cluster, lead, step);
  }

  async #do(cluster: KeptCluster, lead: Lead | undefined, step: PairStep): Promise<void> {
    const { files, restart, log } = this.#deps;
    const { name } = cluster;
    const note = files.note(name);
    const about = { resource: `vcluster/${name}` };
    if (lead !== undefined) lead.members = undefined;
    switch (step.do) {
      case "alone":
        files.save(name, { ...note, shared: note.shared ?? 0 });
        log.warn(about, "the etcd of a virtual cluster goes on alone: it is started again for that");
        return restart(cluster);
      case "restart":
        log.info(about, "the etcd of a virtual cluster is started again, so that it can have a standby");
        return restart(cluster);
      case "settle":
        return files.settle(name);
      case "rename":
        return this.#change(cluster, lead, "update", {
          ID: step.id,
          peerURLs: [pairPeerUrl(pairStart(note).name)],
        });
      case "remove":
        return this.#change(cluster, lead, "remove", { ID: step.id });
      case "add":
        return this.#change(cluster, lead, "add", {
          peerURLs: [pairPeerUrl(standbyMember(note.wish?.generation ?? 0))],
          isLearner: true,
        });
      case "promote":
        // It may have a vote from here on, whether or not we hear that it has.
        if (!isShared(note)) files.save(name, { ...note, shared: note.wish?.generation ?? 0 });
        return this.#change(cluster, lead, "promote", { ID: step.id });
    }
  }

  /** What is not done now is tried again. */
  async #change(
    cluster: KeptCluster,
    lead: Lead | undefined,
    what: "add" | "remove" | "promote" | "update",
    body: object,
  ): Promise<void> {
    const { credentials, log } = this.#deps;
    const refusal = await changeMembers(credentials(cluster), what, body, this.#stop.signal);
    // A learner is asked for its vote until it has all.
    if (refusal !== undefined && refusal !== lead?.refusal && what !== "promote")
      log.warn(
        { resource: `vcluster/${cluster.name}`, refusal },
        "the etcd of a virtual cluster does not do it",
      );
    if (lead !== undefined) lead.refusal = refusal;
  }

  async #status(cluster: KeptCluster): Promise<MemberStatus | undefined> {
    try {
      return await memberStatus(this.#deps.credentials(cluster), this.#stop.signal);
    } catch (err) {
      ignore(err, "it is asked again, and told as one that does not answer");
      return undefined;
    }
  }

  async #members(cluster: KeptCluster, lead: Lead | undefined): Promise<readonly PairMember[] | undefined> {
    const { clock, credentials } = this.#deps;
    const now = clock.monotonic();
    const known = lead?.members;
    if (known !== undefined && lead?.state?.isJoined === true && now - known.at < MEMBERS_MS)
      return known.all;
    try {
      const all = await listMembers(credentials(cluster), this.#stop.signal);
      if (lead !== undefined) lead.members = all === undefined ? undefined : { all, at: now };
      return all;
    } catch (err) {
      ignore(err, "it is asked again, and told as one that does not answer");
      return undefined;
    }
  }

  async #hello(name: string, lead: Lead, { asked, status }: AskedMember): Promise<void> {
    const { files } = this.#deps;
    const note = files.note(name);
    const { generation } = lead;
    const what = asked === undefined ? (isShared(note) ? "voter" : undefined) : standing(asked, generation);
    if (lead.line === undefined || what === undefined || note.wish?.generation !== generation) {
      lead.isThere = false;
      return;
    }
    await this.#openPeer(name, lead);
    const { ownId, leaderId } = status ?? {};
    const isLedElsewhere = what === "voter" && leaderId !== undefined && leaderId !== ownId;
    lead.isThere = await lead.line.hello({
      generation,
      is: what,
      leader: pairStart(note).name,
      ...(isLedElsewhere && ownId !== undefined ? { leadId: ownId } : {}),
    });
  }

  #tell(name: string, lead: Lead, { asked, status, isSilent }: AskedMember & { isSilent: boolean }): void {
    const { files } = this.#deps;
    const note = files.note(name);
    const { generation, isThere, state: before } = lead;
    if (note.wish?.generation !== generation) return;
    const isMet = this.#isMet(lead, status?.leaderId !== undefined);
    lead.state = tellPair({ generation, note, asked, status, isSilent, isThere, isMet, before });
    if (asked !== undefined && lead.state.isJoined && isShared(note) && note.hasVote !== true)
      files.save(name, { ...note, hasVote: true });
  }

  /** One of the two leads, or they have only just met. */
  #isMet(lead: Lead, isLed: boolean): boolean {
    const now = this.#deps.clock.monotonic();
    if (!lead.isThere) lead.met = undefined;
    else lead.met = { at: lead.met?.at ?? now, hadLeader: isLed || lead.met?.hadLeader === true };
    return isLed || (lead.met?.hadLeader === false && now - lead.met.at < MEETING_MS);
  }

  async #begin(name: string, { generation }: LeadWish): Promise<Lead> {
    const known = this.#leads.get(name);
    if (known?.generation === generation) return known;
    this.#end(name);
    const door = await openSocketDoor(this.#lines, { name: socketOf(name), mode: 0o600 }, (socket) => {
      const lead = this.#leads.get(name);
      if (lead?.door !== door) return void socket.destroy();
      lead.line?.close();
      const line = new LeadLine(socket, () => this.#connectOwn(name));
      lead.line = line;
      line.closed
        .then(() => {
          if (lead.line === line) this.#cut(lead);
        })
        .catch((err: unknown) => ignore(err, "it never rejects"));
    });
    const lead: Lead = {
      generation,
      door,
      line: undefined,
      peer: undefined,
      isThere: false,
      met: undefined,
      lookedAt: 0,
      state: undefined,
      members: undefined,
      refusal: undefined,
    };
    this.#leads.set(name, lead);
    return lead;
  }

  #connectOwn(name: string) {
    const { files, clusters, process } = this.#deps;
    const cluster = clusters().find((each) => each.name === name);
    const path = join(files.peers(name), pairSocket(pairStart(files.note(name)).name));
    return connectUnixSocket(path, { ownerUid: (cluster && process(cluster)?.uid) ?? 0 });
  }

  /** Where this node's member finds the other: the socket is there while the line is. */
  async #openPeer(name: string, lead: Lead): Promise<void> {
    if (lead.peer !== undefined) return;
    const socket = pairSocket(standbyMember(lead.generation));
    lead.peer = await openSocketDoor(this.#deps.files.peers(name), { name: socket, mode: 0o666 }, (come) =>
      lead.line === undefined ? come.destroy() : lead.line.carry(come),
    );
    if (this.#leads.get(name) !== lead) this.#cut(lead);
  }

  #cut(lead: Lead): void {
    lead.line?.close();
    lead.peer?.close();
    lead.line = undefined;
    lead.peer = undefined;
    lead.isThere = false;
    lead.met = undefined;
    if (lead.state !== undefined) lead.state = { ...lead.state, isConnected: false };
  }

  #end(name: string): void {
    const lead = this.#leads.get(name);
    if (lead === undefined) return;
    this.#leads.delete(name);
    this.#cut(lead);
    lead.door.close();
  }

  get #lines(): string {
    return join(this.#deps.folder, "lines");
  }
}

function socketOf(name: string): string {
  return `lead-${name}.sock`;
}
