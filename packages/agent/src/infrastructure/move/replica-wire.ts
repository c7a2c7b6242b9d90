// How a copy of a VM's disks goes from agent to agent, on one connection: lines of JSON, and after a line that says so its
// bytes. Only the last line is answered; one who hangs up before it has sent nothing.
import type { Duplex } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import type { GuestMove } from "@gpve/domain/guest/guest-move.ts";
import type {
  Replica,
  ReplicaKeeper,
  ReplicaLine,
  ReplicaOffer,
  ReplicaWriter,
} from "@gpve/domain/replication/replica.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import { readBytes, readLine, writeLine } from "./move-wire.ts";

export const REPLICA_CHANNEL = "replica";
const MAX_PART_BYTES = 8 * 1024 * 1024;

interface Line {
  readonly state?: true;
  readonly begin?: ReplicaOffer;
  readonly part?: { readonly device: number; readonly offset: number; readonly length: number };
  readonly zeroes?: { readonly device: number; readonly offset: number; readonly length: number };
  readonly finish?: true;
}

/** The VM's node. */
export class DialedReplicaLine implements ReplicaLine {
  readonly #socket: Duplex;
  readonly #answerOf: (line: unknown) => unknown;
  readonly #pace: (sent: number) => Promise<void>;
  readonly writer: ReplicaWriter;
  sent = 0;

  constructor(socket: Duplex, answerOf: (line: unknown) => unknown, pace: (sent: number) => Promise<void>) {
    this.#socket = socket;
    this.#answerOf = answerOf;
    this.#pace = pace;
    this.writer = {
      data: async (device, offset, data) => {
        await this.#say({ part: { device, offset, length: data.length } });
        await this.#write(data);
        this.sent += data.length;
        await this.#pace(this.sent);
      },
      zeroes: (device, offset, length) => this.#say({ zeroes: { device, offset, length } }),
      finish: async () => {
        await this.#ask({ finish: true });
      },
      abandon: async () => this.close(),
    };
  }

  async state(): Promise<Replica | undefined> {
    return ((await this.#ask({ state: true })) ?? undefined) as Replica | undefined;
  }

  async begin(offer: ReplicaOffer): Promise<void> {
    await this.#ask({ begin: offer });
  }

  close(): void {
    this.#socket.destroy();
  }

  async #ask(line: Line): Promise<unknown> {
    await this.#say(line);
    return this.#answerOf(await readLine(this.#socket));
  }

  #say(line: Line): Promise<void> {
    return this.#write(Buffer.from(`${JSON.stringify(line)}\n`));
  }

  async #write(bytes: Uint8Array): Promise<void> {
    // Whoever keeps the copy says why it cannot go on, and hangs up.
    if (this.#socket.destroyed || this.#socket.readableLength > 0) {
      this.#answerOf(await readLine(this.#socket));
      throw new AppError("node.unavailable", "the node that keeps the copy answered before it was asked");
    }
    if (!this.#socket.write(bytes)) await roomIn(this.#socket);
  }
}

/** The node that keeps the copy. `failure` puts an error into an answer. */
export async function serveReplica(
  socket: Duplex,
  move: GuestMove,
  keeper: ReplicaKeeper,
  failure: (err: unknown) => unknown,
): Promise<void> {
  let writer: ReplicaWriter | undefined;
  try {
    writeLine(socket, { ok: true });
    for (;;) {
      const line = (await readLine(socket)) as Line | undefined;
      if (line === undefined) return;
      if (line.state === true) writeLine(socket, { ok: (await keeper.state(move.vmid)) ?? null });
      else if (line.begin !== undefined) {
        if (line.begin.vmid !== move.vmid)
          throw new AppError("access.denied", `no server has allowed a copy of VM ${line.begin.vmid}`);
        await writer?.abandon();
        writer = await keeper.begin(line.begin, move.from.node);
        writeLine(socket, { ok: true });
      } else if (line.finish === true) {
        await required(writer).finish();
        writer = undefined;
        writeLine(socket, { ok: true });
      } else await takePart(socket, required(writer), line);
    }
  } catch (err) {
    writeLine(socket, { error: failure(err) });
  } finally {
    await writer?.abandon();
    socket.end();
    // Who still sends must be able to read why.
    socket.resume();
  }
}

async function takePart(socket: Duplex, writer: ReplicaWriter, { part, zeroes }: Line): Promise<void> {
  if (zeroes !== undefined) return writer.zeroes(zeroes.device, zeroes.offset, zeroes.length);
  if (part === undefined || part.length > MAX_PART_BYTES)
    throw new AppError("request.invalid", "this node was sent what it does not know");
  const chunks: Uint8Array[] = [];
  for await (const chunk of readBytes(socket, part.length)) chunks.push(chunk);
  await writer.data(part.device, part.offset, Buffer.concat(chunks));
}

function required(writer: ReplicaWriter | undefined): ReplicaWriter {
  if (writer === undefined) throw new AppError("request.invalid", "nothing was offered yet");
  return writer;
}
