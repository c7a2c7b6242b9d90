// Where the agent of another node comes in, for a move that a server has allowed: by the certificate that the server's
// note names, for that guest alone.
import { randomBytes } from "node:crypto";
import type { Duplex } from "node:stream";
import type { TLSSocket } from "node:tls";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type { MoveOffer, MoveReceiver } from "@gpve/domain/guest/move-channel.ts";
import type { LineEnd } from "@gpve/domain/vcluster/standby/ports.ts";
import { plainFingerprint } from "@gpve/domain/node/record.ts";
import { type DirectPlace, isKey } from "@gpve/domain/vm/migrate/direct-line.ts";
import { decodeWanted } from "@gpve/domain/vm/migrate/ram-transfer.ts";
import { background, ignore } from "@gpve/kit/background.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { CarriedLine, plainAddress } from "./carried-line.ts";
import { CLUSTER_CHANNEL, serveCluster } from "./cluster-wire.ts";
import { tellTaken } from "./line-window.ts";
import { REPLICA_CHANNEL, serveReplica } from "./replica-wire.ts";
import { serveVolumes, VOLUMES_CHANNEL } from "./volume-wire.ts";
import {
  decodeHeader,
  join,
  joinUrgently,
  KEEP_ALIVE_MS,
  RAM_CHANNEL,
  readBytes,
  readLine,
  STANDBY_CHANNEL,
  STANDBY_PLACE_CHANNEL,
  writeLine,
  type MoveHeader,
  type TakenLine,
} from "./move-wire.ts";

export interface MoveDoorDeps {
  readonly node: string;
  readonly receiver: MoveReceiver;
  readonly clock: Clock;
  readonly log: Logger;
  /** The supervisor's binary, which carries what QEMU encrypts. */
  readonly carrier: string;
}

const HEADER_MS = 10_000;
/** A note of a move is good for what it was written for; other channels are those of guests that move. */
const PURPOSES: Readonly<Record<string, GuestMove["purpose"]>> = {
  [REPLICA_CHANNEL]: "replica",
  [CLUSTER_CHANNEL]: "vcluster",
  [STANDBY_CHANNEL]: "standby",
  [STANDBY_PLACE_CHANNEL]: "standby",
  [VOLUMES_CHANNEL]: "volumes",
};

interface LeadLine {
  readonly prepare?: MoveOffer;
  readonly start?: boolean;
  readonly announce?: boolean;
  /** With `start`: how the source would send RAM. */
  readonly transfer?: unknown;
  /** With `start`: by what QEMU would encrypt it. */
  readonly key?: unknown;
  /** With `key`: it is to be told of the place before QEMU waits there. */
  readonly early?: unknown;
}

interface LaidLine {
  readonly line: CarriedLine;
  readonly place: DirectPlace;
}

export class MoveDoor {
  readonly #deps: MoveDoorDeps;
  /** Moves under way, by their names. */
  readonly #leads = new Map<string, TLSSocket>();
  /** What their RAM comes by, where it does not come by us. */
  readonly #lines = new Map<string, CarriedLine>();

  constructor(deps: MoveDoorDeps) {
    this.#deps = deps;
  }

  /** `proven` is called when the peer is who the note names. */
  accept(socket: TLSSocket, proven: () => void): void {
    socket.on("error", () => socket.destroy());
    socket.setNoDelay(true);
    // The other end may lose its power without a word.
    socket.setKeepAlive(true, KEEP_ALIVE_MS);
    background(
      this.#deps.log,
      "a move to this node",
      this.#serve(socket, proven).catch((err: unknown) => {
        // What was written last is still to be heard.
        if (!socket.writableEnded) socket.destroy();
        throw err;
      }),
    );
  }

  async #serve(socket: TLSSocket, proven: () => void): Promise<void> {
    const stopTimer = this.#deps.clock.after(HEADER_MS, () => socket.destroy());
    const header = decodeHeader(await readLine(socket));
    if (header === undefined) {
      stopTimer();
      socket.destroy();
      return;
    }
    const move = await this.#allowed(socket, header).catch((err: unknown) => {
      writeLine(socket, { error: failure(err) });
      socket.end();
      throw err;
    });
    stopTimer();
    if (move === undefined) {
      const ofClusters = [CLUSTER_CHANNEL, STANDBY_CHANNEL, STANDBY_PLACE_CHANNEL, VOLUMES_CHANNEL];
      const isCluster = ofClusters.includes(header.channel);
      const what = isCluster ? "that virtual cluster" : `VM ${header.vmid}`;
      const why = `no server has allowed this node to send ${what} to node ${this.#deps.node}`;
      writeLine(socket, { error: { code: "access.denied", message: why } });
      socket.end();
      return;
    }
    proven();
    const { replicas, clusters, standbys, volumes } = this.#deps.receiver;
    if (move.purpose === "replica" && replicas !== undefined)
      await serveReplica(socket, move, replicas, failure);
    else if (move.purpose === "vcluster" && clusters !== undefined)
      await serveCluster(socket, move, clusters, failure);
    else if (header.channel === STANDBY_PLACE_CHANNEL && standbys !== undefined)
      await this.#place(socket, (address) => standbys.followPlace(move.vcluster ?? "", address));
    else if (move.purpose === "standby" && standbys !== undefined)
      await this.#follow(socket, () => standbys.followEnd(move.vcluster ?? ""));
    else if (move.purpose === "volumes" && volumes !== undefined)
      await serveVolumes(socket, move, volumes, failure);
    else if (header.channel === "lead") await this.#lead(socket, move);
    else if (header.channel === "volume") await this.#volume(socket, move, header);
    else await this.#guest(socket, move, header);
  }

  async #allowed(socket: TLSSocket, { vmid, moveId, channel }: MoveHeader): Promise<GuestMove | undefined> {
    const shown = socket.getPeerX509Certificate()?.fingerprint256;
    if (shown === undefined) return undefined;
    const move = await this.#deps.receiver.find(vmid, moveId);
    const isKnown = move?.from.fingerprints.some(
      (each) => plainFingerprint(each) === plainFingerprint(shown),
    );
    const isOurs = isKnown === true && move?.to.node === this.#deps.node;
    return isOurs && move.purpose === PURPOSES[channel] ? move : undefined;
  }

  async #lead(socket: TLSSocket, move: GuestMove): Promise<void> {
    const gone = new AbortController();
    socket.on("close", () =>
      gone.abort(new AppError("operation.cancelled", `node ${move.from.node} hung up`)),
    );
    this.#leads.set(move.id, socket);
    socket.on("close", () => this.#leads.delete(move.id));
    writeLine(socket, { ok: true });
    for (;;) {
      const line = (await readLine(socket)) as LeadLine | undefined;
      if (line === undefined) break;
      if (line.announce === true) {
        this.#announce(move);
        continue;
      }
      try {
        writeLine(socket, { ok: await this.#asked(socket, move, line, gone.signal) });
      } catch (err) {
        writeLine(socket, { error: failure(err) });
      }
    }
    socket.end();
  }

  /** Nobody waits for it. */
  #announce(move: GuestMove): void {
    this.#lines.get(move.id)?.hurry();
    const { receiver, log } = this.#deps;
    background(log, "announcing a guest that comes", receiver.announce?.(move) ?? Promise.resolve());
  }

  async #asked(socket: TLSSocket, move: GuestMove, line: LeadLine, gone: AbortSignal): Promise<unknown> {
    const { receiver } = this.#deps;
    const { prepare, start } = line;
    if (prepare !== undefined) return { ...(await receiver.prepare(move, prepare, gone)), announces: true };
    if (start !== true) throw new AppError("request.invalid", "this node was asked what it does not know");
    return this.#start(socket, move, line);
  }

  async #start(socket: TLSSocket, move: GuestMove, { transfer, key, early }: LeadLine): Promise<unknown> {
    const { receiver } = this.#deps;
    const wanted = decodeWanted(transfer);
    if (!isKey(key)) return (await receiver.start(move, wanted)).transfer ?? true;
    const laid = early === true ? this.#laid(socket, move) : undefined;
    let isTaken = false;
    try {
      const taken = await receiver.start(move, wanted, key);
      if (taken.isEncrypted !== true) return { ...taken.transfer, refused: taken.refused };
      isTaken = true;
    } finally {
      if (!isTaken) void laid?.then((found) => found?.line.close());
    }
    try {
      return { direct: (await laid)?.place ?? (await this.#waitForLine(socket, move)).place };
    } catch (err) {
      // Anew: one that waits for what is encrypted takes nothing else.
      const { transfer: plain } = await receiver.start(move, wanted);
      return { ...plain, refused: messageOf(err) };
    }
  }

  /** While QEMU is being started: the other end may come meanwhile. Never rejects. */
  async #laid(socket: TLSSocket, move: GuestMove): Promise<LaidLine | undefined> {
    try {
      const found = await this.#waitForLine(socket, move);
      if (!socket.destroyed) writeLine(socket, { place: found.place });
      return found;
    } catch (err) {
      ignore(err, "it is tried again when QEMU waits");
      return undefined;
    }
  }

  async #waitForLine(socket: TLSSocket, move: GuestMove): Promise<LaidLine> {
    const { localAddress: address = "", remoteAddress: peer = "" } = socket;
    const { path, ownerUid: uid = process.getuid?.() ?? 0 } = this.#deps.receiver.socketOf(move, RAM_CHANNEL);
    const secret = randomBytes(32).toString("hex");
    const { line, port } = await CarriedLine.listen(this.#deps.carrier, { address, peer, path, uid }, secret);
    this.#lines.set(move.id, line);
    const cut = (): void => {
      line.close();
      this.#lines.delete(move.id);
    };
    socket.once("close", cut);
    if (socket.destroyed) cut();
    return { line, place: { port, secret } };
  }

  async #volume(socket: TLSSocket, move: GuestMove, header: MoveHeader): Promise<void> {
    const { volid = "", format = "raw", size = 0 } = header;
    try {
      writeLine(socket, { ok: true });
      const source = { format, size, body: readBytes(socket, size) };
      writeLine(socket, { ok: await this.#deps.receiver.receive(move, volid, source) });
    } catch (err) {
      writeLine(socket, { error: failure(err) });
    }
    socket.end();
  }

  #take(move: GuestMove, line: string | undefined, from: Duplex, to: Duplex): void {
    const lead = this.#leads.get(move.id);
    if (line === undefined || lead === undefined) return void from.pipe(to);
    tellTaken(from, to, (bytes) => {
      if (!lead.destroyed) writeLine(lead, { taken: line, bytes } satisfies TakenLine);
    });
  }

  async #guest(socket: TLSSocket, move: GuestMove, { channel, line }: MoveHeader): Promise<void> {
    const { path, ownerUid } = this.#deps.receiver.socketOf(move, channel);
    const guest = await connectUnixSocket(path, { ...given({ ownerUid }) });
    guest.on("error", (err) => ignore(err, "whoever speaks to the guest is told by the guest"));
    writeLine(socket, { ok: true });
    if (channel === RAM_CHANNEL) joinUrgently(socket, guest, (from, to) => this.#take(move, line, from, to));
    else join(socket, guest);
  }

  /** Whoever is told that there is none comes by here. */
  async #place(socket: TLSSocket, place: (address: string) => Promise<DirectPlace>): Promise<void> {
    try {
      writeLine(socket, { ok: await place(plainAddress(socket.localAddress ?? "")) });
    } catch (err) {
      writeLine(socket, { error: failure(err) });
    }
    socket.end();
  }

  /** It is tried again all the time, and whoever tries tells why it fails. */
  async #follow(socket: TLSSocket, endOf: () => LineEnd): Promise<void> {
    try {
      const { path, ownerUid } = endOf();
      const end = await connectUnixSocket(path, { ownerUid });
      end.on("error", (err) => ignore(err, "the line is opened again"));
      writeLine(socket, { ok: true });
      join(socket, end);
    } catch (err) {
      writeLine(socket, { error: failure(err) });
      socket.end();
    }
  }
}

function failure(err: unknown): { code: string; message: string } {
  return { code: err instanceof AppError ? err.code : "internal.error", message: messageOf(err) };
}
