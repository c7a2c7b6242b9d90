// Members of other nodes' etcds, which have what these have and answer nobody. Each is a process with no network and no keys: it is
// reached by sockets in a folder of its own, through the line that the two nodes have while a server allows it.
//
//   FOLDER/standbys/<name>/etcd/              its data
//   FOLDER/standbys/<name>/etcd-standby.json  of which generation these are, and whether it has a vote
//   FOLDER/standbys/<name>/peers/             its socket, ours, and the one at which it is asked
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { ComponentStore } from "@gpve/domain/component/ports.ts";
import { FOLLOWER_CLIENT, followerCommand } from "@gpve/domain/vcluster/etcd.ts";
import { pairPeerUrl, pairSocket, standbyMember } from "@gpve/domain/vcluster/standby/etcd-pair.ts";
import type { KeptStandby, LineEnd } from "@gpve/domain/vcluster/standby/ports.ts";
import { readJsonFile, writeFileAtomic } from "@gpve/kit/atomic-file.ts";
import { ignore } from "@gpve/kit/background.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { MINIMAL_ENV } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import type { SupervisedGuest } from "../../guest-process/supervised-guest.ts";
import type { SupervisedGuests } from "../../guest-process/supervised-guests.ts";
import { readStatus } from "../etcd-admin.ts";
import { type EtcdPairFiles, makePeers } from "./etcd-pair-files.ts";
import { FollowLine, type PairHello } from "./pair-line.ts";
import { openSocketDoor, type SocketDoor } from "./socket-door.ts";

export interface EtcdFollowersDeps {
  /** DIR/vclusters */
  readonly folder: string;
  readonly files: EtcdPairFiles;
  readonly processes: Pick<SupervisedGuests, "start" | "get" | "forget" | "lastWords">;
  readonly components: Pick<ComponentStore, "program">;
  readonly clock: Clock;
  readonly log: Logger;
}

interface Note {
  readonly generation: number;
  /** What it confirmed counts: data that are gone are not begun anew. */
  readonly hasVote?: true;
}

interface Follower {
  /** As it was said last. */
  standby: KeptStandby;
  readonly door: SocketDoor;
  line: FollowLine | undefined;
  /** Where its member finds that of the control plane, while there is a line. */
  peer: { readonly leader: string; readonly door: SocketDoor } | undefined;
  work: Promise<boolean> | undefined;
  startedAt: number | undefined;
  ledAt: number | undefined;
}

/** One that does not stay up is started again so often. */
const AGAIN_MS = 5_000;
const STOP_MS = 2_000;
const ASK_MS = 2_000;

export class EtcdFollowers {
  readonly #deps: EtcdFollowersDeps;
  readonly #followers = new Map<string, Follower>();

  constructor(deps: EtcdFollowersDeps) {
    this.#deps = deps;
  }

  /** Lines to it are taken from now on; its process is started by what comes by them. */
  async follow(standby: KeptStandby): Promise<void> {
    const { name, generation } = standby;
    const known = this.#followers.get(name);
    if (known?.standby.generation === generation) {
      known.standby = standby;
      return;
    }
    const isNew = this.#note(name)?.generation !== generation;
    // One that has outlived the agent runs on.
    if (known !== undefined || isNew) await this.unfollow(name);
    if (isNew) {
      for (const each of ["etcd", "peers"]) rmSync(this.#place(name, each), { recursive: true, force: true });
      this.#save(name, { generation });
    }
    mkdirSync(this.#lines, { recursive: true, mode: 0o700 });
    const door = await openSocketDoor(this.#lines, { name: socketOf(name), mode: 0o600 }, (socket) => {
      const follower = this.#followers.get(name);
      if (follower?.door !== door) return void socket.destroy();
      follower.line?.close();
      const line = new FollowLine(socket, {
        hello: (words) => this.#hello(follower, words),
        connectOwn: () => this.#connect(name, standbyMember(generation)),
      });
      follower.line = line;
      line.closed
        .then(() => {
          if (follower.line === line) cut(follower);
        })
        .catch((err: unknown) => ignore(err, "it never rejects"));
    });
    const more = {
      line: undefined,
      peer: undefined,
      work: undefined,
      startedAt: undefined,
      ledAt: undefined,
    };
    this.#followers.set(name, { standby, door, ...more });
  }

  followEnd(name: string): LineEnd {
    return { path: join(this.#lines, socketOf(name)), ownerUid: process.getuid?.() ?? 0 };
  }

  /** Resolves when its data are nobody's: nothing is confirmed any more. */
  async unfollow(name: string): Promise<void> {
    const { processes } = this.#deps;
    const follower = this.#followers.get(name);
    this.#followers.delete(name);
    if (follower !== undefined) {
      cut(follower);
      follower.door.close();
      await follower.work?.catch((err: unknown) => ignore(err, "told by whoever did it"));
    }
    await this.#running(name)?.stop({ timeoutMs: STOP_MS });
    await processes.forget(idOf(name));
  }

  /** Of one that is not followed any more: it becomes that of a cluster of this node, which begins by going on alone. */
  adopt({ name, generation }: KeptStandby): void {
    const { folder, files } = this.#deps;
    const from = this.#place(name, "etcd");
    if (!existsSync(from)) return;
    const to = join(folder, "clusters", name, "etcd");
    files.save(name, { member: standbyMember(generation), shared: generation });
    rmSync(to, { recursive: true, force: true });
    renameSync(from, to);
  }

  /** Guests run on without us. */
  close(): void {
    for (const follower of this.#followers.values()) {
      cut(follower);
      follower.door.close();
    }
    this.#followers.clear();
  }

  #hello(follower: Follower, words: PairHello): Promise<boolean> {
    if (words.generation !== follower.standby.generation) return Promise.resolve(false);
    // One after the other: it is said every second, and a start takes its time.
    const before = follower.work ?? Promise.resolve(true);
    const work = before.catch(() => false).then(() => this.#heed(follower, words));
    follower.work = work;
    return work;
  }

  async #heed(follower: Follower, words: PairHello): Promise<boolean> {
    const { standby } = follower;
    const { name } = standby;
    if (this.#followers.get(name) !== follower || follower.line === undefined) return false;
    const note = this.#note(name) ?? { generation: standby.generation };
    const hasData = existsSync(this.#place(name, "etcd", "member", "wal"));
    // It has lost what it confirmed, or the other has lost whom it asked.
    if (words.is === "voter" ? !hasData : note.hasVote === true) return false;
    if (words.is === "nothing yet") {
      if (hasData) await this.#beginAnew(name);
      return true;
    }
    if (words.is === "voter" && note.hasVote !== true) this.#save(name, { ...note, hasVote: true });
    await this.#start(follower, words.leader);
    await this.#openPeer(name, follower, words.leader);
    if (words.leadId !== undefined) await this.#handOver(name, follower, words.leadId);
    return true;
  }

  async #beginAnew(name: string): Promise<void> {
    await this.#running(name)?.stop({ timeoutMs: STOP_MS });
    await this.#deps.processes.forget(idOf(name));
    rmSync(this.#place(name, "etcd"), { recursive: true, force: true });
  }

  async #start(follower: Follower, leader: string): Promise<void> {
    const { components, processes, clock, log } = this.#deps;
    const { name, generation, etcdVersion = "" } = follower.standby;
    if (this.#running(name) !== undefined) return;
    const now = clock.monotonic();
    if (follower.startedAt !== undefined) {
      const words = processes.lastWords(idOf(name)).trim().slice(-500);
      const about = { resource: `vcluster/${name}`, words };
      if (now - follower.startedAt < AGAIN_MS)
        throw new AppError("internal.error", "the member of an etcd does not stay up");
      log.warn(about, "the standby of an etcd had ended and is started again");
    }
    follower.startedAt = now;
    const [own, dataFolder, peers] = [
      standbyMember(generation),
      this.#place(name, "etcd"),
      this.#place(name, "peers"),
    ];
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    await makePeers(peers, [own, FOLLOWER_CLIENT]);
    const members = [leader, own].map((each) => `${each}=${pairPeerUrl(each)}`);
    try {
      await processes.start({
        id: idOf(name),
        label: `standby of the etcd of virtual cluster ${name}`,
        program: components.program("etcd", etcdVersion, "etcd"),
        args: followerCommand({ name: own, initialCluster: members.join(","), dataFolder }),
        files: [
          { path: dataFolder, access: "rw", deep: true },
          { path: peers, access: "rw", owned: false },
        ],
        workFolder: peers,
        env: { ...MINIMAL_ENV, HOME: "/", TMPDIR: "/tmp" },
        bounds: { tasks: 4_096 },
      });
    } catch (err) {
      log.error(
        { resource: `vcluster/${name}`, err: messageOf(err) },
        "the standby of an etcd cannot be started",
      );
      throw err;
    }
  }

  async #openPeer(name: string, follower: Follower, leader: string): Promise<void> {
    if (follower.peer?.leader === leader) return;
    follower.peer?.door.close();
    const socket = pairSocket(leader);
    const door = await openSocketDoor(this.#place(name, "peers"), { name: socket, mode: 0o666 }, (come) =>
      follower.line === undefined ? come.destroy() : follower.line.carry(come),
    );
    follower.peer = { leader, door };
    if (this.#followers.get(name) !== follower || follower.line === undefined) cut(follower);
  }

  /** Whoever has the control plane leads: a write goes to the other once then, and not twice. */
  async #handOver(name: string, follower: Follower, to: string): Promise<void> {
    const now = this.#deps.clock.monotonic();
    if (follower.ledAt !== undefined && now - follower.ledAt < AGAIN_MS) return;
    follower.ledAt = now;
    try {
      const { ownId, leaderId } = readStatus(await this.#ask(name, "status", {})) ?? {};
      if (leaderId === ownId) await this.#ask(name, "transfer-leadership", { targetID: to });
    } catch (err) {
      ignore(err, "it works the other way round too, and is tried again");
    }
  }

  async #ask(name: string, what: string, body: object): Promise<string> {
    const socket = await this.#connect(name, FOLLOWER_CLIENT);
    return new Promise((resolve, reject) => {
      const asked = request(
        {
          method: "POST",
          path: `/v3/maintenance/${what}`,
          headers: { Host: "standby" },
          createConnection: () => socket,
          signal: AbortSignal.timeout(ASK_MS),
        },
        (response) => {
          let text = "";
          response.setEncoding("utf8");
          response.on("data", (chunk: string) => (text += chunk));
          response.on("end", () => resolve(text));
          response.on("error", reject);
        },
      );
      asked.on("error", reject);
      asked.on("close", () => socket.destroy());
      asked.end(JSON.stringify(body));
    });
  }

  #connect(name: string, member: string) {
    const ownerUid = this.#running(name)?.uid ?? 0;
    return connectUnixSocket(join(this.#place(name, "peers"), pairSocket(member)), { ownerUid });
  }

  #running(name: string): SupervisedGuest | undefined {
    const found = this.#deps.processes.get(idOf(name));
    return found?.hasExited === true ? undefined : found;
  }

  #note(name: string): Note | undefined {
    return readJsonFile(this.#place(name, "etcd-standby.json")) as Note | undefined;
  }

  #save(name: string, note: Note): void {
    mkdirSync(this.#place(name), { recursive: true, mode: 0o700 });
    writeFileAtomic(this.#place(name, "etcd-standby.json"), `${JSON.stringify(note)}\n`);
  }

  get #lines(): string {
    return join(this.#deps.folder, "lines");
  }

  #place(name: string, ...more: readonly string[]): string {
    return join(this.#deps.folder, "standbys", name, ...more);
  }
}

function cut(follower: Follower): void {
  follower.line?.close();
  follower.peer?.door.close();
  follower.line = undefined;
  follower.peer = undefined;
}

function idOf(name: string): string {
  return `${name}.standby`;
}

function socketOf(name: string): string {
  return `follow-${name}.sock`;
}
