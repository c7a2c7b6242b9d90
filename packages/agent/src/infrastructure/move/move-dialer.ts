// The way to the agent of the node that a guest moves to. Who answers there must show the certificate that the server's
// note names: authorities of agents are known to servers alone.
import { connect, type TLSSocket } from "node:tls";
import { AppError, errorCodes, type ErrorCode } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { GuestProcess } from "@gpve/domain/guest/guest-processes.ts";
import type {
  ForwardedSocket,
  MoveAnswer,
  MoveOffer,
  MovePeer,
  MovePeers,
  MoveSource,
  MoveWork,
} from "@gpve/domain/guest/move-channel.ts";
import { plainFingerprint } from "@gpve/domain/node/record.ts";
import { decodeDirect, type DirectPlace, type RamWay } from "@gpve/domain/vm/migrate/direct-line.ts";
import { decodeTransfer, type WantedTransfer } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { ignore } from "@gpve/kit/background.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import type { ReplicaLine, ReplicaPeers, ReplicaWork } from "@gpve/domain/replication/replica.ts";
import type { ClusterLine, ClusterPeers } from "@gpve/domain/vcluster/move/cluster-moves.ts";
import type { VolumeParcel, VolumePeers } from "@gpve/domain/vcluster/backup/cluster-volumes.ts";
import { drained } from "./drained.ts";
import { CarriedLine } from "./carried-line.ts";
import { CLUSTER_CHANNEL, DialedClusterLine } from "./cluster-wire.ts";
import { forwardCarried } from "./forward-carried.ts";
import { forwardSocket } from "./forward-socket.ts";
import { LineWindow } from "./line-window.ts";
import { DialedReplicaLine, REPLICA_CHANNEL } from "./replica-wire.ts";
import { askedVolumes, VOLUMES_CHANNEL } from "./volume-wire.ts";
import type { LineEnd, StandbyPeers } from "@gpve/domain/vcluster/standby/ports.ts";
import {
  isTaken,
  join,
  KEEP_ALIVE_MS,
  MOVE_PROTOCOL,
  readLine,
  STANDBY_CHANNEL,
  STANDBY_PLACE_CHANNEL,
  writeLine,
  type MoveHeader,
} from "./move-wire.ts";

export interface MoveDialerDeps {
  readonly identity: () => { readonly certPem: string; readonly keyPem: string };
  /** A folder of ours, near the root: a socket's path may have 107 bytes. */
  readonly folder: string;
  /** The supervisor's binary, which carries what QEMU encrypts. */
  readonly carrier: string;
}

const CONNECT_MS = 10_000;

export class MoveDialer implements MovePeers, ReplicaPeers, ClusterPeers, StandbyPeers, VolumePeers {
  readonly #deps: MoveDialerDeps;

  constructor(deps: MoveDialerDeps) {
    this.#deps = deps;
  }

  async connect(move: GuestMove, signal: AbortSignal): Promise<MovePeer> {
    const open = (header: Omit<MoveHeader, "vmid" | "moveId">): Promise<TLSSocket> =>
      this.#open(move, header, signal);
    return new DialedPeer(move, await open({ channel: "lead" }), open, this.#deps);
  }

  async replicaLine(move: GuestMove, { signal, bytesPerSecond }: ReplicaWork): Promise<ReplicaLine> {
    const socket = await this.#open(move, { channel: REPLICA_CHANNEL }, signal);
    signal.addEventListener("abort", () => socket.destroy(), { once: true });
    const pace = new Pace(bytesPerSecond);
    return new DialedReplicaLine(
      socket,
      (line) => answerOf(move, line),
      (sent) => pace.after(sent, signal),
    );
  }

  async clusterLine(move: GuestMove, signal: AbortSignal): Promise<ClusterLine> {
    const socket = await this.#open(move, { channel: CLUSTER_CHANNEL }, signal);
    signal.addEventListener("abort", () => socket.destroy(), { once: true });
    return new DialedClusterLine(socket, (line) => answerOf(move, line));
  }

  async clusterVolumes(move: GuestMove, signal: AbortSignal): Promise<VolumeParcel> {
    const socket = await this.#open(move, { channel: VOLUMES_CHANNEL }, signal);
    signal.addEventListener("abort", () => socket.destroy(), { once: true });
    try {
      return await askedVolumes(socket, (line) => answerOf(move, line));
    } catch (err) {
      socket.destroy();
      throw err;
    }
  }

  async standbyLine(move: GuestMove, end: LineEnd, signal: AbortSignal): Promise<void> {
    const there = await this.#open(move, { channel: STANDBY_CHANNEL }, signal);
    try {
      const here = await connectUnixSocket(end.path, { ownerUid: end.ownerUid, signal });
      here.on("error", (err) => ignore(err, "the line is opened again"));
      const over = new Promise<void>((resolve) => {
        for (const each of [here, there]) each.once("close", () => resolve());
      });
      signal.addEventListener("abort", () => there.destroy(), { once: true });
      if (signal.aborted) there.destroy();
      join(here, there);
      await over;
      here.destroy();
    } finally {
      there.destroy();
    }
  }

  async standbyPlace(move: GuestMove, signal: AbortSignal): Promise<DirectPlace> {
    const socket = await this.#dial(move, signal);
    signal.addEventListener("abort", () => socket.destroy(), { once: true });
    if (signal.aborted) socket.destroy();
    try {
      writeLine(socket, { vmid: move.vmid, moveId: move.id, channel: STANDBY_PLACE_CHANNEL });
      const place = decodeDirect(answerOf(move, await readLine(socket)));
      if (place !== undefined) return place;
      throw new AppError("node.unavailable", `node '${move.to.node}' says no place for a line`);
    } finally {
      socket.destroy();
    }
  }

  async #open(
    move: GuestMove,
    header: Omit<MoveHeader, "vmid" | "moveId">,
    signal: AbortSignal,
  ): Promise<TLSSocket> {
    const socket = await this.#dial(move, signal);
    try {
      writeLine(socket, { vmid: move.vmid, moveId: move.id, ...header });
      answerOf(move, await readLine(socket));
      return socket;
    } catch (err) {
      socket.destroy();
      throw err;
    }
  }

  #dial({ to }: GuestMove, signal: AbortSignal): Promise<TLSSocket> {
    const { certPem, keyPem } = this.#deps.identity();
    return new Promise((resolve, reject) => {
      const fail = (why: string): void => {
        socket.destroy();
        const message = `cannot reach the agent of node '${to.node}' at ${to.address}:${to.port}: ${why}`;
        reject(new AppError("node.unavailable", message));
      };
      const onAbort = (): void => fail("the move was called off");
      const socket = connect(
        {
          host: to.address,
          port: to.port,
          cert: certPem,
          key: keyPem,
          minVersion: "TLSv1.3",
          ALPNProtocols: [MOVE_PROTOCOL],
          // Judged below, by its fingerprint and nothing else.
          rejectUnauthorized: false,
          timeout: CONNECT_MS,
        },
        () => {
          const shown = socket.getPeerX509Certificate()?.fingerprint256 ?? "";
          const isKnown = to.fingerprints.some((each) => plainFingerprint(each) === plainFingerprint(shown));
          signal.removeEventListener("abort", onAbort);
          if (!isKnown) return fail("another certificate answers there than this node's");
          if (socket.alpnProtocol !== MOVE_PROTOCOL)
            return fail("it takes no guests over; look whether it runs this version");
          socket.setTimeout(0);
          socket.setNoDelay(true);
          // The other end may lose its power without a word.
          socket.setKeepAlive(true, KEEP_ALIVE_MS);
          socket.on("error", () => socket.destroy());
          resolve(socket);
        },
      );
      socket.once("error", (err) => fail(err.message));
      socket.once("timeout", () => fail("no answer"));
      signal.addEventListener("abort", onAbort, { once: true });
    });
  }
}

class DialedPeer implements MovePeer {
  readonly #move: GuestMove;
  readonly #lead: TLSSocket;
  readonly #open: (header: Omit<MoveHeader, "vmid" | "moveId">) => Promise<TLSSocket>;
  readonly #deps: Pick<MoveDialerDeps, "folder" | "carrier">;
  readonly #lost = new AbortController();
  /** What RAM connections have under way, by their names. */
  readonly #windows = new Map<string, LineWindow>();
  /** Who waits for an answer, in the order of the questions. */
  readonly #asked: ((answer: unknown) => void)[] = [];
  #onPlace: ((place: DirectPlace) => void) | undefined;
  #isClosed = false;
  #announces = false;

  constructor(
    move: GuestMove,
    lead: TLSSocket,
    open: (header: Omit<MoveHeader, "vmid" | "moveId">) => Promise<TLSSocket>,
    deps: Pick<MoveDialerDeps, "folder" | "carrier">,
  ) {
    this.#move = move;
    this.#lead = lead;
    this.#open = open;
    this.#deps = deps;
    lead.on("close", () => {
      // Who hangs up himself has lost nothing, and knows why he does.
      if (!this.#isClosed)
        this.#lost.abort(new AppError("node.unavailable", `node '${move.to.node}' hung up`));
    });
    this.#listen().catch((err: unknown) => lead.destroy(err instanceof Error ? err : undefined));
  }

  get lost(): AbortSignal {
    return this.#lost.signal;
  }

  async prepare(offer: MoveOffer, signal: AbortSignal): Promise<MoveAnswer> {
    const answer = (await this.#ask({ prepare: offer }, signal)) as MoveAnswer;
    this.#announces = answer.announces === true;
    return answer;
  }

  async start(
    signal: AbortSignal,
    wanted?: WantedTransfer,
    key?: string,
    onPlace?: (place: DirectPlace) => void,
  ): Promise<RamWay> {
    this.#onPlace = onPlace;
    const early = onPlace !== undefined;
    const answer = await this.#ask({ start: true, early, ...given({ transfer: wanted, key }) }, signal);
    const transfer = decodeTransfer(answer);
    if (transfer === "unknown") {
      const why = `node '${this.#move.to.node}' takes the guest's RAM in a way that this node does not know: look whether both run the same version`;
      throw new AppError("feature.unsupported", why);
    }
    const { direct: place, refused } = Object(answer) as { direct?: unknown; refused?: unknown };
    const direct = decodeDirect(place);
    if (direct !== undefined) return { direct };
    const said = typeof refused === "string" ? refused : "it knows nothing of it";
    return given({ transfer, refused: key === undefined ? undefined : said });
  }

  /** Somebody must read, or nobody is told when the line is cut. */
  async #listen(): Promise<void> {
    for (;;) {
      const line = await readLine(this.#lead);
      const place = placeIn(line);
      if (isTaken(line)) this.#windows.get(line.taken)?.took(line.bytes);
      else if (place !== undefined) this.#onPlace?.(place);
      else this.#asked.shift()?.(line);
      if (line === undefined) break;
    }
    for (const answer of this.#asked.splice(0)) answer(undefined);
  }

  async #ask(message: object, signal: AbortSignal): Promise<unknown> {
    const hangUp = (): void => void this.#lead.destroy();
    signal.addEventListener("abort", hangUp, { once: true });
    const answered = new Promise<unknown>((resolve) => this.#asked.push(resolve));
    if (this.#lead.destroyed) for (const answer of this.#asked.splice(0)) answer(undefined);
    else writeLine(this.#lead, message);
    const answer = await answered;
    signal.removeEventListener("abort", hangUp);
    return answerOf(this.#move, answer);
  }

  async send(
    volid: string,
    source: MoveSource,
    { signal, progress, bytesPerSecond }: MoveWork,
  ): Promise<string> {
    const { format, size, body } = source;
    const socket = await this.#open({ channel: "volume", volid, format, size });
    const pace = new Pace(bytesPerSecond);
    const hangUp = (): void => void socket.destroy();
    signal.addEventListener("abort", hangUp, { once: true });
    try {
      let sent = 0;
      for await (const chunk of body) {
        if (!socket.write(chunk)) await drained(socket);
        if (socket.destroyed) break;
        sent += chunk.length;
        progress(size === 0 ? 1 : sent / size);
        await pace.after(sent, signal);
      }
      return String(answerOf(this.#move, await readLine(socket)));
    } finally {
      signal.removeEventListener("abort", hangUp);
      socket.destroy();
    }
  }

  announce(): void {
    if (this.#announces && !this.#lead.destroyed) writeLine(this.#lead, { announce: true });
  }

  forward(process: GuestProcess, channel: string): Promise<ForwardedSocket> {
    return forwardSocket(this.#deps.folder, process, channel, async () => {
      const name = String(this.#windows.size);
      const window = new LineWindow();
      this.#windows.set(name, window);
      return { line: await this.#open({ channel, line: name }), window };
    });
  }

  async forwardDirect(process: GuestProcess, { port, secret }: DirectPlace): Promise<ForwardedSocket> {
    const { carrier, folder } = this.#deps;
    const address = this.#lead.remoteAddress;
    if (address === undefined) throw new AppError("node.unavailable", "the line to the node has ended");
    return forwardCarried(folder, process, (path) =>
      CarriedLine.dial(carrier, { address, port, path }, secret),
    );
  }

  close(): void {
    this.#isClosed = true;
    this.#lead.destroy();
  }
}

/** No faster than it may be. */
class Pace {
  readonly #bytesPerSecond: number | undefined;
  readonly #begun = systemClock.monotonic();

  constructor(bytesPerSecond: number | undefined) {
    this.#bytesPerSecond = bytesPerSecond;
  }

  async after(sent: number, signal: AbortSignal): Promise<void> {
    if (this.#bytesPerSecond === undefined) return;
    const early = (sent / this.#bytesPerSecond) * 1000 - (systemClock.monotonic() - this.#begun);
    if (early > 10) await systemClock.sleep(early, signal);
  }
}

function placeIn(line: unknown): DirectPlace | undefined {
  return decodeDirect((line as { readonly place?: unknown } | undefined)?.place);
}

/** What the other end has said, or why it has not. */
function answerOf({ to }: GuestMove, line: unknown): unknown {
  const { ok, error } = (line ?? {}) as { ok?: unknown; error?: { code?: unknown; message?: unknown } };
  if (ok !== undefined) return ok;
  if (error === undefined) throw new AppError("node.unavailable", `node '${to.node}' hung up`);
  const said = String(error.code);
  const code = Object.hasOwn(errorCodes, said) ? (said as ErrorCode) : "internal.error";
  throw new AppError(code, `node '${to.node}': ${String(error.message)}`, { pveStatus: 500 });
}
